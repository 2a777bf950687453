/* Readers for the values of options, whose form is the same in every locale (cohort_key_value). */
#ifndef COHORT_API_VALUES_H
#define COHORT_API_VALUES_H

#include <errno.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads an integer, a size in bytes or a duration in nanoseconds. Returns 1, or 0 if the text is no integer of 64 bits:
 * `*value` then stays as it was. [any-thread] */
static inline int cohort_read_int(const char* text, int64_t* value) {
  char* end;
  long long number;
  errno = 0;
  number = strtoll(text, &end, 10);
  if (end == text || *end || errno) return 0;
  *value = number;
  return 1;
}

/* Reads a number, rounded to the nearest double. strtod alone would expect the decimal point of the program's locale.
 * Returns 1, or 0 if the text is no number: `*value` then stays as it was. [any-thread] */
static inline int cohort_read_float(const char* text, double* value) {
  enum { kCapacity = 352 }; /* the longest number without an exponent, and a decimal point of several bytes */
  char local[kCapacity];
  const char* point = localeconv()->decimal_point;
  char* end;
  double number;
  int whole = 0;
  const char* rest;
  while (text[whole] && text[whole] != '.') ++whole;
  rest = text[whole] ? text + whole + 1 : "";
  if (snprintf(local, kCapacity, "%.*s%s%s", whole, text, text[whole] ? point : "", rest) >= kCapacity) return 0;
  number = strtod(local, &end);
  if (end == local || *end) return 0;
  *value = number;
  return 1;
}

#endif
