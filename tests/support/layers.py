"""The order of the rooms, and what stands outside of it, each with its reason."""

from __future__ import annotations

__all__ = [
    "FACES",
    "FRAMEWORKS",
    "NOT_PUBLIC",
    "ROOMS",
    "TESTED_BY",
]

# From the lowest room to the highest: a module imports from its own room and from lower ones.
ROOMS = (
    "errors",
    "config",
    "system",
    "problem",
    "backends.base",
    "backends.numpy",
    "backends.onednn.binding",
    "backends.onednn.wisdom",
    "backends.onednn.selection",
    "backends.onednn.execution",
    "backends.onednn",
    "backends",
    "dispatch",
    "api",
    "wisdom",
    "overlap",
    "__init__",
    "torch",
    "jax",
    "scipy",
    "dask",
    "tools.text",
    "tools.extras",
    "tools.benchdnn",
    "tools.native_programs",
    "testing",
    "tools",
    "cli",
    "__main__",
)

# Rooms whose inside is their own: others import the module that is the room's name.
FACES = ("backends.onednn", "backends.numpy")

# Rooms that import a framework, which most users do not have: nothing else imports these rooms, but
# for functions of the tools, while they run.
FRAMEWORKS = ("torch", "jax", "scipy", "dask")

# What the rooms of frameworks, tools and commands import besides the public names of `onednn_py`:
# which module, by whom, and why.
NOT_PUBLIC = {
    "config": (
        {"cli", "tools.benchmark", "tools.demo", "tools.graph_files", "torch", "jax", "dask"},
        "options accept the names and numbers that settings accept; types and values of settings",
    ),
    "api.types": ({"tools.demo", "scipy", "dask"}, "types of keywords that are passed on"),
    "system.allocator": ({"torch"}, "freed memory is kept while PyTorch's calls run here"),
    "system.small_holes": ({"torch"}, "plans are made among the large tensors of PyTorch's heap"),
    "system.forks": ({"torch"}, "forked data loaders meet locks of the room's own"),
    "api.info": ({"tools.benchmark"}, "the package's version alone, without opening a library"),
    "problem.dtypes": (
        {"tools", "cli", "dask"},
        "tolerances and arrays by benchdnn's names of types",
    ),
    "problem.operations": (
        {"tools.benchdnn", "tools.graph_files", "testing.candidate", "scipy", "dask"},
        "benchdnn's directions, the kinds of graph files, operators and the functions that a"
        " candidate may have are looked up in the table",
    ),
    "problem.problem": (
        {"tools.benchdnn", "tools.graph_files", "tools.native_programs", "dask"},
        "benchdnn's directions; the problems that known defects and tune concern",
    ),
    "problem.recipe": (
        {"tools.benchdnn", "tools.graph_files", "scipy", "dask"},
        "the Problem of a case without its data, for tune and known defects; operators' shapes",
    ),
    "problem.keywords": ({"scipy", "dask"}, "keywords of other libraries are translated"),
    "problem.foreign": (
        {"testing.candidate", "scipy", "dask"},
        "results of candidates and fixed tensors may be other libraries'",
    ),
    "system.cpu": ({"tools.benchmark"}, "a benchmark names its machine"),
    "system.casting": ({"dask"}, "partial sums become the result's type"),
    "system.sums": ({"dask"}, "partial sums of bias gradients"),
    "problem.geometry": (
        {"tools.benchdnn", "testing.strategies", "torch", "jax"},
        "benchdnn's descriptors leave sizes out; drawn cases and foreign calls have shapes",
    ),
    "problem.attributes": (
        {"tools.graph_files", "scipy", "torch"},
        "shapes fail with the same words; the largest number that attributes may have",
    ),
    "problem.arrays": (
        {"tools.graph_files", "torch", "scipy", "dask"},
        "a graph file gives strides, which arrays must have; tensors are bound by their strides",
    ),
    "problem.formats": (
        {"torch", "scipy", "dask"},
        "tensors bound by their strides; weights are joined",
    ),
    "system.memory_pool": ({"torch"}, "results of a memory format of PyTorch's choice"),
    "problem.call_spec": (
        {"tools.graph_files", "torch", "dask"},
        "a file's operation is checked before it has data; a signature is bound once",
    ),
    "api.run_op": ({"tools.graph_files"}, "a file's operation is bound before it has data"),
    "dispatch.bound_call": ({"torch"}, "tensors are known by their addresses"),
    "dispatch.general_call": (
        {"tools.graph_files"},
        "the report names the plan of strided tensors",
    ),
    "dispatch.settings": (
        {"tools.graph_files", "torch", "scipy"},
        "what is planned by hand heeds the settings of the context",
    ),
    "backends.base": ({"tools.graph_files"}, "the type of that plan"),
    "backends": ({"cli.tune"}, "measuring without a call"),
    "backends.onednn": (
        {"cli.tune", "cli.wisdom", "tools.native_programs", "torch"},
        "measuring without a call; programs link with the library in use and know its defects;"
        " whether there is a library",
    ),
    "backends.onednn.wisdom.files": ({"cli.tune", "cli.wisdom"}, "files are read and merged alone"),
    "backends.onednn.wisdom.entry": ({"cli.wisdom"}, "the type of a file's entries"),
    "dispatch.planner": ({"cli.tune"}, "the reason that plans print, too"),
}

# Modules of the core without a test file of their name, and the file that tests them.
TESTED_BY = {
    "api.cache": "dispatch/test_call_cache_limits.py",
    "api.conv_transpose": "api/test_gradients.py",
    "api.convolution": "api/test_gradients.py",
    "api.info": "backends/onednn/binding/test_library.py",
    "api.packed": "backends/onednn/execution/test_packing.py",
    "api.types": "typing_examples.py",
    "dispatch.general_call": "problem/test_arrays.py",
    "dispatch.settings": "test_config.py",
    "backends.numpy.channelwise": "backends/numpy/test_plan.py",
    "backends.numpy.gradient": "backends/numpy/test_plan.py",
    "backends.onednn.binding.engine": "backends/onednn/selection/test_select.py",
    "backends.onednn.binding.runtime": "api/test_threads.py",
    "backends.onednn.execution.bias_steps": "backends/onednn/selection/test_bias_additions.py",
    "backends.onednn.execution.casts": "backends/onednn/execution/test_chunked_execution.py",
    "backends.onednn.execution.lowering": "backends/onednn/execution/test_chunked_execution.py",
    "backends.onednn.execution.notes": "api/test_plan.py",
    "backends.onednn.execution.plan": "backends/onednn/execution/test_packing.py",
    "backends.onednn.execution.shared_reorders": "dispatch/test_first_calls.py",
    "backends.onednn.execution.steps": "backends/onednn/execution/test_chunked_execution.py",
    "backends.onednn.execution.tensors": "backends/onednn/execution/test_chunked_execution.py",
    "backends.onednn.selection.candidate": "api/test_backward.py",
    "backends.onednn.selection.decide": "backends/onednn/selection/test_defects.py",
    "backends.onednn.selection.descriptors": "backends/onednn/selection/test_select.py",
    "backends.onednn.selection.formulation": "backends/onednn/selection/test_select.py",
    "backends.onednn.selection.formulations": "backends/onednn/selection/test_select.py",
    "backends.onednn.selection.product_formulations": "backends/onednn/selection/test_matmul.py",
    "backends.onednn.selection.rules.data": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.few_channels": (
        "backends/onednn/selection/test_families_without_amx.py"
    ),
    "backends.onednn.selection.rules.first_without_amx": (
        "backends/onednn/selection/test_layouts_without_amx.py"
    ),
    "backends.onednn.selection.rules.forward": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.full_width_bf16": (
        "backends/onednn/selection/test_full_width.py"
    ),
    "backends.onednn.selection.rules.full_width_f32": (
        "backends/onednn/selection/test_full_width.py"
    ),
    "backends.onednn.selection.rules.amx_bf16": "backends/onednn/selection/test_amx.py",
    "backends.onednn.selection.rules.amx_f32_first": "backends/onednn/selection/test_amx.py",
    "backends.onednn.selection.rules.amx_f32_last": "backends/onednn/selection/test_amx.py",
    "backends.onednn.selection.rules.avx2_deep": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_deep_first": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_depthwise": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_few_inputs": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_first": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_last": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_merged": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_padded": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_pixels": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_forward": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_gradients": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_powers": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_strided_1x1": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_upsampling": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.avx2_volumes": "backends/onednn/selection/test_avx2.py",
    "backends.onednn.selection.rules.depthwise_volumes": (
        "backends/onednn/selection/test_depthwise_volumes.py"
    ),
    "backends.onednn.selection.rules.half_width_bf16": (
        "backends/onednn/selection/test_half_width.py"
    ),
    "backends.onednn.selection.rules.half_width_blocks": (
        "backends/onednn/selection/test_half_width.py"
    ),
    "backends.onednn.selection.rules.half_width_deep": (
        "backends/onednn/selection/test_half_width_deep.py"
    ),
    "backends.onednn.selection.rules.half_width_f32": (
        "backends/onednn/selection/test_half_width.py"
    ),
    "backends.onednn.selection.rules.half_width_groups": (
        "backends/onednn/selection/test_half_width.py"
    ),
    "backends.onednn.selection.rules.grouped": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.grouped_rest": (
        "backends/onednn/selection/test_grouped_rest.py"
    ),
    "backends.onednn.selection.rules.im2col": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.kind": "backends/onednn/selection/test_kind.py",
    "backends.onednn.selection.rules.last_without_amx": (
        "backends/onednn/selection/test_layouts_without_amx.py"
    ),
    "backends.onednn.selection.rules.lines_and_volumes": (
        "backends/onednn/selection/test_families_without_amx.py"
    ),
    "backends.onednn.selection.rules.one_channel": (
        "backends/onednn/selection/test_one_channel.py"
    ),
    "backends.onednn.selection.rules.patches": (
        "backends/onednn/selection/test_families_without_amx.py"
    ),
    "backends.onednn.selection.rules.products": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.rule": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.small": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.strided": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.strided_1x1": (
        "backends/onednn/selection/test_families_without_amx.py"
    ),
    "backends.onednn.selection.preference": "backends/onednn/selection/test_select.py",
    "backends.onednn.selection.rules.transposed_without_amx": (
        "backends/onednn/selection/test_heuristics.py"
    ),
    "backends.onednn.selection.rules.without_amx_bf16": (
        "backends/onednn/selection/test_heuristics.py"
    ),
    "backends.onednn.selection.rules.without_amx_f32": (
        "backends/onednn/selection/test_heuristics.py"
    ),
    "backends.onednn.selection.rules.transposed": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.rules.weights": "backends/onednn/selection/test_rules.py",
    "backends.onednn.selection.weights_defects": "backends/onednn/selection/test_defects.py",
    "backends.onednn.selection.workspace": "backends/onednn/selection/test_chunks.py",
    "dask.data_tasks": "dask/test_blocks.py",
    "dask.functions": "dask/test_collections.py",
    "dask.partition": "dask/test_layer.py",
    "dask.weights_tasks": "dask/test_blocks.py",
    "dispatch.plan_cache": "api/test_plan.py",
    "dispatch.planner": "backends/test_base.py",
    "jax.callbacks": "jax/test_lowering.py",
    "jax.folding": "jax/test_primitives.py",
    "jax.geometry": "jax/test_convolution.py",
    "jax.reference": "jax/test_convolution.py",
    "jax.requirements": "jax/test_lowering.py",
    "problem.attributes": "test_errors.py",
    "problem.call_spec": "api/test_backward.py",
    "problem.dtypes": "test_errors.py",
    "problem.formats": "api/test_semantics.py",
    "problem.geometry": "api/test_semantics.py",
    "problem.operations": "api/test_run_op.py",
    "problem.recipe": "api/test_semantics.py",
    "problem.shapes": "api/test_semantics.py",
    "problem.solvers": "api/test_semantics.py",
    "scipy._scipy": "scipy/test_arguments.py",
    "scipy.functions": "scipy/test_arguments.py",
    "torch.signature": "torch/test_kernels.py",
    "torch.tensors": "torch/test_kernels.py",
}
