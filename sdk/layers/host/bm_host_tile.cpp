#include "bm_host_tile.h"
