/* Test a port against one case of the golden suite:
   cc -DCASE='"golden/table-default.h"' '-DTENSOR(name)=table_default_##name' runner.c -lm && ./a.out
   (-DMISTAKE plants one: sines and cosines swapped). run_c.sh tries all tables. The port here is the naive one: angles in
   float. It passes near 0 and fails where float does. */
#include <math.h>
#include <stdio.h>
#include CASE

#define POSITIONS (sizeof TENSOR(positions) / sizeof TENSOR(positions)[0])
#define PAIRS (sizeof TENSOR(inv_freq) / sizeof TENSOR(inv_freq)[0])

/* ---- the port under test: replace this function by your own ---- */
static void rotary(float position, int pair, float *cosine, float *sine) {
    float frequency = 1.0f / powf((float)TENSOR(base)[0], 2.0f * (float)pair / (2.0f * (float)PAIRS));
    float angle = position * frequency;
#ifdef MISTAKE
    *sine = cosf(angle), *cosine = sinf(angle);
#else
    *cosine = cosf(angle), *sine = sinf(angle);
#endif
}
/* ------------------------------------------------------------------ */

int main(void) {
    double worst = 0.0, worst_near = 0.0;
    for (unsigned row = 0; row < POSITIONS; row++) {
        for (unsigned pair = 0; pair < PAIRS; pair++) {
            float cosine, sine;
            rotary((float)TENSOR(positions)[row], (int)pair, &cosine, &sine);
            double error = fmax(fabs((double)cosine - TENSOR(cos)[row][pair]), fabs((double)sine - TENSOR(sin)[row][pair]));
            worst = fmax(worst, error);
            if (TENSOR(positions)[row] < 3) worst_near = fmax(worst_near, error);
        }
    }
    printf("%s  %s  off by %.1e, by %.1e at positions below 3\n", worst <= TENSOR(tolerance)[0] ? "passed" : "FAILED", CASE,
           worst, worst_near);
    return worst <= TENSOR(tolerance)[0] ? 0 : 1;
}
