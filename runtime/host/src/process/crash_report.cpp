// Handlers for crashes and uncaught exceptions, and the watchdog of PluginCall.
//
// A signal handler may neither allocate nor lock. Everything that it needs is therefore made in advance and reachable
// through globals: the address ranges of the code of plugins and of this program, each plugin's line with gaps for the
// signal's name and the thread's activity, and the PluginCall that is alive.
//
// On a crash the handler writes one line. It is the line of the PluginCall if that call runs on the thread. If not, it
// is the line of the plugin with the innermost code on the stack. If there is none, it is the line of the program,
// unless the program handles the signal itself. A signal from another process is not a crash. The handler then restores
// the signal's earlier action, and the signal comes again; a PluginCall with Crash::kIsRefusal ends the process at
// once.
#include <cohort/host/crash_report.hpp>

#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <cohort/host/activity.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
constexpr int kMostFrames = 64;
constexpr size_t kMostLibraries = 64;
constexpr std::chrono::milliseconds kTick{1000};
constexpr std::string_view kSignalName = "%SIGNAL%", kActivity = "%ACTIVITY%";
constexpr std::string_view kAdviceOnPlugins = "; ask its authors, or use another version";
constexpr std::string_view kAdvice = "; run it in a debugger, or build it with AddressSanitizer";
constexpr size_t kLongestActivity = 512;

// A handler on the thread's own stack could not report that the stack has overflowed.
alignas(16) constinit std::array<std::byte, 64 << 10> handler_stack{};

}  // namespace

/// A line of the log that is formatted in advance, because a signal handler cannot allocate.
class CrashLine {
 public:
  CrashLine(const Log& log, std::string_view who, std::string_view where, std::string_view advice) {
    std::string message(who);
    for (const auto& part : {std::string_view(" crashed with "), kSignalName, where, advice}) message += part;
    const std::string line = log.line(LogLevel::kError, message);
    const size_t name = line.find(kSignalName), after_name = name + kSignalName.size();
    const size_t activity = line.find(kActivity, after_name);
    before_ = line.substr(0, name);
    has_activity_ = activity != std::string::npos;
    between_ = line.substr(after_name, has_activity_ ? activity - after_name : activity);
    if (has_activity_) after_ = line.substr(activity + kActivity.size());
  }

  /// Writes the line to standard error, in one piece, because ranks that crash together share a stream. Safe in a
  /// signal handler.
  void write(int signal) const noexcept {
    std::array<char, kLongestActivity> room{};
    const char* const name = ::sigabbrev_np(signal);
    const std::string_view activity = has_activity_ ? activity_in(room) : "";
    std::array<iovec, 6> pieces{};
    size_t count = 0;
    for (const std::string_view text :
         {std::string_view(before_), std::string_view("SIG"), std::string_view(name ? name : "?"),
          std::string_view(between_), activity, std::string_view(after_)}) {
      pieces[count++] = {const_cast<char*>(text.data()), text.size()};
    }
    if (::writev(STDERR_FILENO, pieces.data(), static_cast<int>(count)) < 0) return;  // the signal has to do
  }

 private:
  // Returns the activity, or the name of a thread without one. The main thread needs no name.
  static std::string_view activity_in(std::array<char, kLongestActivity>& room) noexcept {
    TextInRoom text(room);
    text << " in ";
    const size_t nothing = text.text().size();
    Activity::tell_own(text);
    if (text.text().size() == nothing) {
      std::array<char, 16> thread{};
      if (::getpid() == ::gettid() || ::prctl(PR_GET_NAME, thread.data()) != 0) return "";
      text << "its thread '" << std::string_view(thread.data()) << "'";
    }
    // In JSON the text stands between quotation marks.
    const auto needs_escape = [](unsigned char c) { return c < ' ' || c == '"' || c == '\\'; };
    std::replace_if(room.begin(), room.end(), needs_escape, '?');
    return text.text();
  }

  std::string before_, between_, after_;
  bool has_activity_ = false;
};

/// The PluginCall that is alive, as handlers read it.
struct RunningCall {
  const CrashLine* line;
  std::string_view plugin, function;
  PluginCall::Crash crash;
};

namespace {

/// The addresses of a library's code. `line` is null for code of this program, set for code of a plugin.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
  std::unique_ptr<const CrashLine> line;
};

// Globals, because a handler gets no argument but the signal. An entry is written before num_code_ranges counts it and
// is never changed afterwards: plugins are never unloaded.
constinit std::array<CodeRange, kMostLibraries> code_ranges;
constinit std::atomic<size_t> num_code_ranges{0};

// The innermost PluginCall of this thread. A handler may read it, because the model needs no allocation at first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local const RunningCall* running_call = nullptr;

// Reports a crash outside of plugins. It is null without a CrashReport.
constinit std::atomic<const CrashLine*> line_of_program{nullptr};

/// Finds the innermost stack frame in code of a plugin or of this program. Returns the line of that plugin, or null if
/// the frame is of this program or there is none.
const CrashLine* line_of_stack() {
  std::array<void*, kMostFrames> frames;
  const int count = ::backtrace(frames.data(), kMostFrames);
  const size_t known = num_code_ranges.load();
  bool in_handler = true;  // its frames come first and are this program's, too; frames of libc follow
  for (int i = 0; i < count; ++i) {
    const auto place = reinterpret_cast<uintptr_t>(frames[static_cast<size_t>(i)]);
    const auto* const range = std::find_if(code_ranges.begin(), code_ranges.begin() + known,
                                           [&](const CodeRange& one) { return place >= one.begin && place < one.end; });
    if (range != code_ranges.begin() + known && !in_handler) return range->line.get();
    if (range == code_ranges.begin() + known) in_handler = false;
  }
  return nullptr;
}

// The actions that the signals had before CrashReport, in the order of kCrashes.
constinit std::array<struct sigaction, kCrashes.size()> actions_before{};

/// Returns true for a fault of the processor, false for a signal that a process has sent: abort() sends one, too.
bool is_fault(const siginfo_t& info) {
  return info.si_code > 0;
}

/// Returns the line that reports a crash on this thread, or null if another handler reports it.
const CrashLine* line_of_crash(bool is_handled) {
  if (running_call) return running_call->line;
  if (const CrashLine* const line = line_of_stack()) return line;
  return is_handled ? nullptr : line_of_program.load();
}

extern "C" void report_crash(int signal, siginfo_t* info, void*) {
  const auto place = std::find(kCrashes.begin(), kCrashes.end(), signal) - kCrashes.begin();
  const struct sigaction& before = actions_before[static_cast<size_t>(place)];
  const bool is_handled = (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL;
  const bool is_own = is_fault(*info) || info->si_pid == ::getpid();
  if (const CrashLine* const line = is_own ? line_of_crash(is_handled) : nullptr) line->write(signal);
  const bool is_refusal = is_own && running_call && running_call->crash == PluginCall::Crash::kIsRefusal;
  if (is_refusal) ::_exit(static_cast<int>(ExitCode::kPluginRefused));
  ::sigaction(signal, &before, nullptr);
  // The instruction of a fault runs again when this handler returns, and faults with its code and address, which
  // raise() would lose. A signal that was sent is delivered when this handler returns.
  if (!is_fault(*info)) ::raise(signal);
}

// The log for uncaught exceptions; null without a CrashReport.
constinit std::atomic<Log*> log_of_exceptions{nullptr};
constinit std::atomic<const UncaughtReport::Report*> own_report{nullptr};
constinit std::atomic<pid_t> reporting_thread{0};

std::string current_text() {
  try {
    if (std::current_exception()) rethrow_translated();
    return "std::terminate was called";
  } catch (const std::exception& error) {
    return in_quotes(error.what());
  } catch (...) {
    return name_of_unknown_exception();
  }
}

// A thread that fails while another one reports waits for the end of the process, which would cut the report short. Its
// own failure while it reports is left to the log.
void end_by_own_report() {
  pid_t nobody = 0;
  if (!own_report.load()) return;
  if (!reporting_thread.compare_exchange_strong(nobody, ::gettid())) {
    while (nobody != ::gettid()) ::pause();
    return;
  }
  const auto code = (*own_report.load())();
  reporting_thread.store(0);
  if (!code) return;
  std::fflush(nullptr);
  ::_exit(*code);
}

void report_exception() {
  const RunningCall* const call = running_call;
  if (!call) end_by_own_report();
  if (Log* const log = log_of_exceptions.load()) {
    log->error(call ? std::string(call->plugin) + " threw " + current_text() + " out of its " +
                          std::string(call->function) + "; functions of a plugin return a status and never throw"
                    : "an exception that nothing caught ended the program: " + current_text());
  }
  ::_exit(static_cast<int>(call ? ExitCode::kPluginRefused : ExitCode::kTrainingFailed));
}

void note_code(uintptr_t begin, uintptr_t end, std::unique_ptr<const CrashLine> line) {
  const size_t place = num_code_ranges.load();
  if (place == kMostLibraries) return;
  code_ranges[place] = {begin, end, std::move(line)};
  num_code_ranges.store(place + 1);
}

CodeRange code_of(const dl_phdr_info& info) {
  CodeRange code;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    code.begin = info.dlpi_addr + segment.p_vaddr;
    code.end = code.begin + segment.p_memsz;
  }
  return code;
}

int note_own_code(dl_phdr_info* info, size_t, void*) {
  const std::string_view path = info->dlpi_name;
  const CodeRange code = code_of(*info);
  const bool is_own = path.empty() || path.find("/libcohort_") != std::string_view::npos;
  if (is_own && code.end != 0) note_code(code.begin, code.end, nullptr);
  return 0;
}

struct WantedPlugin {
  const std::string path;
  const Log& log;
};

int note_plugin_code(dl_phdr_info* info, size_t, void* data) {
  const auto& wanted = *static_cast<const WantedPlugin*>(data);
  if (wanted.path != info->dlpi_name) return 0;
  const CodeRange code = code_of(*info);
  note_code(code.begin, code.end,
            std::make_unique<CrashLine>(wanted.log, "plugin file '" + wanted.path + "'", kActivity, kAdviceOnPlugins));
  return 1;
}

}  // namespace

CrashReport::CrashReport(Log& log)
    : line_(std::make_unique<CrashLine>(log, "the program", kActivity, kAdvice)),
      terminate_before_(std::set_terminate(report_exception)) {
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);  // the first call loads libgcc, which a handler must not do
  if (num_code_ranges.load() == 0) ::dl_iterate_phdr(note_own_code, nullptr);
  log_of_exceptions.store(&log);
  line_of_program.store(line_.get());
  stack_t stack{};
  ::sigaltstack(nullptr, &stack);
  has_own_stack_ = (stack.ss_flags & SS_DISABLE) != 0;
  if (has_own_stack_) {
    stack = {.ss_sp = handler_stack.data(), .ss_flags = 0, .ss_size = handler_stack.size()};
    ::sigaltstack(&stack, nullptr);
  }
  struct sigaction action {};
  action.sa_sigaction = report_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes[i], &action, &actions_before[i]);
}

CrashReport::~CrashReport() {
  for (size_t i = 0; i < kCrashes.size(); ++i) ::sigaction(kCrashes[i], &actions_before[i], nullptr);
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  if (has_own_stack_) ::sigaltstack(&none, nullptr);
  line_of_program.store(nullptr);
  log_of_exceptions.store(nullptr);
  std::set_terminate(terminate_before_);
}

UncaughtReport::UncaughtReport(Report report) : report_(std::move(report)) {
  own_report.store(&report_);
}

UncaughtReport::~UncaughtReport() {
  while (reporting_thread.load() != 0) ::pause();  // until the process ends
  own_report.store(nullptr);
}

void note_loaded_plugin(const std::filesystem::path& file, const Log& log) {
  WantedPlugin wanted{file.string(), log};
  ::dl_iterate_phdr(note_plugin_code, &wanted);
}

struct PluginCall::Note {
  Note(Log& log_of_host, const std::string& plugin_, const std::string& function_, Crash crash)
      : log(log_of_host),
        plugin(plugin_),
        function(function_),
        line(log_of_host, plugin, " in its " + function, kAdviceOnPlugins),
        call{&line, plugin, function, crash} {}

  void watch(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex);
    watchdog_id = ::gettid();
    for (auto left = deadline; left.count() > 0; left -= kTick) {
      if (over.wait_for(lock, std::min(left, kTick), [this] { return is_over; })) return;
    }
    log.error(plugin + " was not done within " + std::to_string(deadline.count()) + " ms in its " + function +
              "; ask its authors, or use another version");
    ::_exit(static_cast<int>(ExitCode::kPluginRefused));
  }

  Log& log;
  const std::string plugin, function;
  const CrashLine line;
  const RunningCall call;
  const RunningCall* outer = nullptr;
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  std::thread watchdog;
  pid_t watchdog_id = 0;
};

PluginCall::PluginCall(Log& log, const std::string& plugin, const std::string& function, Crash crash,
                       std::chrono::milliseconds deadline)
    : note_(std::make_unique<Note>(log, plugin, function, crash)) {
  note_->outer = std::exchange(running_call, &note_->call);
  try {
    note_->watchdog = std::thread([note = note_.get(), deadline] { note->watch(deadline); });
  } catch (const std::system_error&) {
    log.debug(plugin + ", " + function + " runs without a deadline, because there can be no more threads");
  }
}

std::optional<PluginCall::Running> PluginCall::on_this_thread() {
  if (!running_call) return std::nullopt;
  return Running{std::string(running_call->plugin), std::string(running_call->function), running_call->crash};
}

PluginCall::~PluginCall() {
  {
    const std::lock_guard lock(note_->mutex);
    note_->is_over = true;
  }
  note_->over.notify_one();
  if (note_->watchdog.joinable()) {
    note_->watchdog.join();
    while (::tgkill(::getpid(), note_->watchdog_id, 0) == 0) std::this_thread::yield();  // ProcessTraits counts it
  }
  running_call = note_->outer;
}

}  // namespace cohort::host
