/* Numbers as people read them. NAN stands for "not known" and is shown as `-`. Pure; each figure is
 * short however large the number. */
#ifndef SHUFFLEFS_FIGURES_H
#define SHUFFLEFS_FIGURES_H

struct figure {
    char text[32];
};

struct figure figure_count(double count);   /* 1,281,167 */
struct figure figure_bytes(double bytes);   /* 57.1 MiB */
struct figure figure_share(double share);   /* 0.974 is 97.4 % */
struct figure figure_span(double seconds);  /* 1:23, 4:05:06, 3d 04:05 */
struct figure figure_micros(double micros); /* 40 us, 1.25 ms, 3.10 s */

#endif
