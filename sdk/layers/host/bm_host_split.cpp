#include "bm_host_split.h"
