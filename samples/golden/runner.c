/* Test a port against one case of the golden suite: cc -DCASE='"golden/table-default.h"' runner.c -lm && ./a.out
   (-DMISTAKE plants one: sines and cosines swapped). run_c.sh tries all tables. The port here is the naive one: angles in
   float. It passes near 0 and fails where float does. */
#include <math.h>
#include <stdio.h>
#include CASE

#define POSITIONS (sizeof table_positions / sizeof table_positions[0])
#define PAIRS (sizeof table_inv_freq / sizeof table_inv_freq[0])

/* ---- the port under test: replace this function by your own ---- */
static void rotary(float position, int pair, float *cosine, float *sine) {
    float frequency = 1.0f / powf((float)table_base[0], 2.0f * (float)pair / (2.0f * (float)PAIRS));
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
            rotary((float)table_positions[row], (int)pair, &cosine, &sine);
            double error = fmax(fabs((double)cosine - table_cos[row][pair]), fabs((double)sine - table_sin[row][pair]));
            worst = fmax(worst, error);
            if (table_positions[row] < 3) worst_near = fmax(worst_near, error);
        }
    }
    printf("%s  %s  off by %.1e, by %.1e at positions below 3\n", worst <= table_tolerance[0] ? "passed" : "FAILED", CASE,
           worst, worst_near);
    return worst <= table_tolerance[0] ? 0 : 1;
}
