#include "bm_host_arg.h"
