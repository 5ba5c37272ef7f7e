/* Dump queries before and after the rotation as raw floats, (heads, L, D). */
#include <stdio.h>

void dump(const char *path, const float *q, size_t count) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return;
    fwrite(q, sizeof *q, count, file);
    fclose(file);
}
