#include "bm_host_reshape.h"
