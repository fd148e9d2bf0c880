#include "bm_host_transpose.h"
