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
  *value = (int64_t)number;
  return 1;
}

/* Reads a number, rounded to the nearest double. strtod alone would expect the decimal point of the program's locale.
 * Returns 1, or 0 if the text is no number: `*value` then stays as it was. [any-thread] */
static inline int cohort_read_float(const char* text, double* value) {
  char local[352]; /* the longest number without an exponent, and a decimal point of several bytes */
  const char* point = localeconv()->decimal_point;
  char* end;
  double number;
  size_t whole = 0;
  while (text[whole] && text[whole] != '.') ++whole;
  if (snprintf(local, sizeof local, "%.*s%s%s", (int)whole, text, text[whole] ? point : "",
               text[whole] ? text + whole + 1 : "") >= (int)sizeof local) {
    return 0;
  }
  number = strtod(local, &end);
  if (end == local || *end) return 0;
  *value = number;
  return 1;
}

#endif
