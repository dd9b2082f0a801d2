# Defines rannc_deps::onnx: ONNX in the private namespace rannc_onnx, over the system's Protocol Buffers.
#
# The namespace keeps it apart from the ONNX that LibTorch exports; two copies under one name corrupt each other. A file
# that uses this target must not see LibTorch's headers (rannc_deps::torch).
set(RANNC_ONNX_DIR "" CACHE PATH "An ONNX installed with the flags of tools/setup-versions; empty: what tools/setup built")

set(onnx_dir "${RANNC_ONNX_DIR}")
if(NOT onnx_dir)
  rannc_setup_path(onnx onnx_dir)
endif()
if(NOT EXISTS "${onnx_dir}/lib/cmake/ONNX/ONNXConfig.cmake")
  message(FATAL_ERROR "No ONNX in '${onnx_dir}': run tools/setup, or build without it by -DRANNC_ONNX=OFF")
endif()

find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED CONFIG PATHS "${onnx_dir}/lib/cmake/ONNX" NO_DEFAULT_PATH)
message(STATUS "ONNX ${ONNX_VERSION}: ${onnx_dir}")
# Where the conformance cases of ONNX's operators lie, for the frontend's tests.
set(RANNC_ONNX_NODE_TESTS "${onnx_dir}/share/node-tests")

add_library(rannc_deps::onnx INTERFACE IMPORTED)
set_target_properties(rannc_deps::onnx PROPERTIES INTERFACE_LINK_LIBRARIES "ONNX::onnx;ONNX::onnx_proto")
