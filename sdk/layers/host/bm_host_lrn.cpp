#include "bm_host_lrn.h"
