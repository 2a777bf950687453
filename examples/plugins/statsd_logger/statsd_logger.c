/* A logger: sends what a run measures to a statsd server, as gauges, in datagrams of UDP.
 *
 * A dashboard reads them there. Nothing is kept, so nothing has to be removed if a run goes on with an earlier one.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <cohort/api/cohort.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONGEST_LINE 512

typedef struct state {
  int socket;
  struct sockaddr_in server;
  char prefix[64];
} state;

/* Every declared option is there. */
static const char* option(const cohort_key_value* options, uint64_t n, const char* key) {
  for (uint64_t i = 0; i < n; ++i) {
    if (strcmp(options[i].key, key) == 0) return options[i].value;
  }
  return "";
}

static cohort_status create(cohort_logger* logger, const cohort_key_value* options, uint64_t n) {
  state* s = calloc(1, sizeof *s);
  if (!s) return logger->host->fail(logger->host, COHORT_RESOURCE_EXHAUSTED, "no memory");
  s->server.sin_family = AF_INET;
  int64_t port = 0;
  cohort_read_int(option(options, n, "port"), &port);
  s->server.sin_port = htons((uint16_t)port);
  snprintf(s->prefix, sizeof s->prefix, "%s", option(options, n, "prefix"));
  if (inet_pton(AF_INET, option(options, n, "host"), &s->server.sin_addr) != 1) {
    free(s);
    return logger->host->fail(logger->host, COHORT_INVALID_ARGUMENT, "host must be an address such as 127.0.0.1");
  }
  s->socket = socket(AF_INET, SOCK_DGRAM, 0);
  if (s->socket < 0) {
    free(s);
    return logger->host->fail(logger->host, COHORT_INTERNAL, "no socket can be opened");
  }
  logger->data = s;
  return COHORT_OK;
}

static void destroy(cohort_logger* logger) {
  state* s = logger->data;
  if (!s) return; /* create has failed */
  close(s->socket);
  free(s);
}

/* A server that is away is no reason to end the training: datagrams are lost, as statsd means it. */
static cohort_status log_values(cohort_logger* logger, uint64_t step, int64_t epoch, const cohort_logged_value* values,
                                uint64_t n) {
  state* s = logger->data;
  (void)step;
  (void)epoch;
  for (uint64_t i = 0; i < n; ++i) {
    char line[LONGEST_LINE];
    const int length = snprintf(line, sizeof line, "%s.%s:%.9g|g", s->prefix, values[i].name, values[i].value);
    if (length < 0 || length >= LONGEST_LINE) continue;
    sendto(s->socket, line, (size_t)length, 0, (const struct sockaddr*)&s->server, sizeof s->server);
  }
  return COHORT_OK;
}

static const cohort_option kOptions[] = {
    {.key = "host", .type = "string", .default_value = "127.0.0.1", .help = "address of the server"},
    {.key = "port", .type = "int[1..65535]", .default_value = "8125", .help = "port of the server"},
    {.key = "prefix", .type = "string", .default_value = "cohort", .help = "stands before each name, with a dot"},
};

static const cohort_logger_vt kLogger = {
    .struct_size = sizeof(cohort_logger_vt),
    .create = create,
    .destroy = destroy,
    .log_values = log_values,
};

static const cohort_component kComponent = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_LOGGER,
    .name = "statsd_logger",
    .summary = "sends what is measured to a statsd server",
    .options = kOptions,
    .num_options = sizeof kOptions / sizeof kOptions[0],
    .vtable = &kLogger,
};

static const cohort_component* const kComponents[] = {&kComponent, NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.example.statsd_logger",
    .version = "1.0.0",
    .vendor = "Example",
    .license = "MIT",
    .components = kComponents,
};
