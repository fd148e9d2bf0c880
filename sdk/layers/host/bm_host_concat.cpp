#include "bm_host_concat.h"
