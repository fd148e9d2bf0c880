/* In front of every host program of the tests. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a function that returns int: leaves it with 1 and a line on stdout unless x is true. */
#define CHECK(x)                                        \
    do {                                                \
        if (!(x)) {                                     \
            printf("line %d: %s\n", __LINE__, #x);      \
            return 1;                                   \
        }                                               \
    } while (0)
