/* The OpenMP runtime that libdnnl itself is linked to, reached through libdnnl's handle. */

int omp_get_max_threads(void);
void omp_set_num_threads(int num_threads);
