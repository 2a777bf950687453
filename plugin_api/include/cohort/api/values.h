/* Readers for the values of options. Values have the same form in every locale (cohort_key_value). */
#ifndef COHORT_API_VALUES_H
#define COHORT_API_VALUES_H

#include <stdint.h>

/* Reads an integer, a size in bytes or a duration in nanoseconds. Returns 1; if the text is no 64-bit integer, returns
 * 0 and leaves `*value` unchanged. [any-thread] */
static inline int cohort_read_int(const char* text, int64_t* value) {
  const int is_negative = *text == '-';
  int64_t number = 0; /* negative, as the negative range holds one more number */
  if (is_negative) ++text;
  if (!*text) return 0;
  for (; *text; ++text) {
    const int digit = *text - '0';
    if (digit < 0 || digit > 9 || number < (INT64_MIN + digit) / 10) return 0;
    number = 10 * number - digit;
  }
  if (!is_negative && number == INT64_MIN) return 0;
  *value = is_negative ? number : -number;
  return 1;
}

#ifdef __cplusplus
#define COHORT_AS_DOUBLE(number) (static_cast<double>(number))
#else
#define COHORT_AS_DOUBLE(number) ((double)(number))
#endif

/* Reads a number, to within one unit of the last place of a double. Returns 1, or 0 if the text is no number or beyond
 * the greatest double: `*value` then stays as it was. [any-thread] */
static inline int cohort_read_float(const char* text, double* value) {
  const int is_negative = *text == '-';
  long double number = 0;
  int num_digits = 0, is_fraction = 0;
  int64_t exponent = 0;
  if (is_negative) ++text;
  for (; (*text >= '0' && *text <= '9') || (*text == '.' && !is_fraction); ++text) {
    if (*text == '.') {
      is_fraction = 1;
      continue;
    }
    number = 10 * number + (*text - '0');
    exponent -= is_fraction;
    ++num_digits;
  }
  if (num_digits == 0) return 0;
  if (*text == 'e') {
    int64_t written = 0;
    if (!cohort_read_int(text + 1, &written) || written < -400 || written > 400) return 0;
    exponent += written;
  } else if (*text) {
    return 0;
  }
  for (; exponent >= 10; exponent -= 10) number *= 1e10L;
  for (; exponent > 0; --exponent) number *= 10;
  for (; exponent <= -10; exponent += 10) number /= 1e10L;
  for (; exponent < 0; ++exponent) number /= 10;
  if (number > 1.797693134862315807e308L) return 0;
  *value = COHORT_AS_DOUBLE(is_negative ? -number : number);
  return 1;
}

#endif
