/* Engines (the CPU), streams (the order of execution), the CPU's instruction set. */

typedef enum {
    dnnl_any_engine = 0,
    dnnl_cpu = 1,
    dnnl_gpu = 2
} dnnl_engine_kind_t;

typedef enum {
    dnnl_stream_in_order = 1,
    dnnl_stream_out_of_order = 2,
    dnnl_stream_default_flags = 1
} dnnl_stream_flags_t;

typedef enum {
    dnnl_cpu_isa_default = 0x0,
    dnnl_cpu_isa_sse41 = 0x1,
    dnnl_cpu_isa_avx = 0x3,
    dnnl_cpu_isa_avx2 = 0x7,
    dnnl_cpu_isa_avx2_vnni = 0xf,
    dnnl_cpu_isa_avx2_vnni_2 = 0x1f,
    dnnl_cpu_isa_avx512_core = 0x27,
    dnnl_cpu_isa_avx512_core_vnni = 0x67,
    dnnl_cpu_isa_avx512_core_bf16 = 0xe7,
    dnnl_cpu_isa_avx512_core_fp16 = 0x1ef,
    dnnl_cpu_isa_avx512_core_amx = 0xfef,
    dnnl_cpu_isa_avx512_core_amx_fp16 = 0x1fef
} dnnl_cpu_isa_t;

typedef struct dnnl_engine *dnnl_engine_t;
typedef struct dnnl_stream *dnnl_stream_t;

size_t dnnl_engine_get_count(dnnl_engine_kind_t kind);
dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index);
dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine);

dnnl_status_t dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags);
dnnl_status_t dnnl_stream_wait(dnnl_stream_t stream);
dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream);

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void);
