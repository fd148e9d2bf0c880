#include "bm_host_matmul.h"
