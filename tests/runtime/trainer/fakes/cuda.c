/* What a fork asks of CUDA's driver. `state`: 0 not initialised, 1 initialised, 2 device 1 has a primary context,
 * 3 this thread has a context. */
enum { kNotInitialised = 3 };

extern int state;
int cuCtxGetCurrent(void** context);
int cuDeviceGetCount(int* count);
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active);

int state = 0;

int cuCtxGetCurrent(void** context) {
  *context = state >= 3 ? &state : 0;
  return state >= 1 ? 0 : kNotInitialised;
}

int cuDeviceGetCount(int* count) {
  *count = 2;
  return state >= 1 ? 0 : kNotInitialised;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = state == 2 && device == 1;
  return 0;
}
