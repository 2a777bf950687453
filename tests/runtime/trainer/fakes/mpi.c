/* What a fork asks of MPI. `state`: 0 not initialised, 1 initialised, 2 finalised. */
extern int state;
int MPI_Initialized(int* flag);
int MPI_Finalized(int* flag);

int state = 0;

int MPI_Initialized(int* flag) {
  *flag = state >= 1;
  return 0;
}

int MPI_Finalized(int* flag) {
  *flag = state >= 2;
  return 0;
}
