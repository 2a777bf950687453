/* The free layer. */
#define NAME "refusing_layer"
#define INHERITS "*"
#include "refusing.c"
