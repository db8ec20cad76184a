/* Status codes, data types, versions: what every other area uses.
   oneDNN v3; checked against the real headers by tests/backends/onednn/binding/test_declarations.py. */

typedef enum {
    dnnl_success = 0,
    dnnl_out_of_memory = 1,
    dnnl_invalid_arguments = 2,
    dnnl_unimplemented = 3,
    dnnl_last_impl_reached = 4,
    dnnl_runtime_error = 5,
    dnnl_not_required = 6,
    dnnl_invalid_graph = 7,
    dnnl_invalid_graph_op = 8,
    dnnl_invalid_shape = 9,
    dnnl_invalid_data_type = 10
} dnnl_status_t;

typedef enum {
    dnnl_data_type_undef = 0,
    dnnl_f16 = 1,
    dnnl_bf16 = 2,
    dnnl_f32 = 3
} dnnl_data_type_t;

#define DNNL_MAX_NDIMS 12
typedef int64_t dnnl_dim_t;
typedef dnnl_dim_t dnnl_dims_t[DNNL_MAX_NDIMS];

typedef struct {
    int major;
    int minor;
    int patch;
    const char *hash;
    unsigned cpu_runtime;
    unsigned gpu_runtime;
} dnnl_version_t;

#define DNNL_RUNTIME_SEQ 1
#define DNNL_RUNTIME_OMP 2
#define DNNL_RUNTIME_TBB 4
#define DNNL_RUNTIME_THREADPOOL 8
#define DNNL_RUNTIME_SYCL 512

const dnnl_version_t *dnnl_version(void);
