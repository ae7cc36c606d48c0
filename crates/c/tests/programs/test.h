/* Assertions of the test programs. */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless the condition holds. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Ends the program, with the last error, unless the call returns the code. */
#define EXPECT(code, call)                                                                                             \
    do {                                                                                                               \
        int32_t returned = (call);                                                                                     \
        if (returned != (code)) {                                                                                      \
            char text[512];                                                                                            \
            fw_last_error(text, sizeof text);                                                                          \
            fprintf(stderr, "%s:%d: %s returned %d (%s): %s\n", __FILE__, __LINE__, #call, (int)returned,              \
                    fw_strerror(returned), text);                                                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) EXPECT(FW_OK, call)

#endif
