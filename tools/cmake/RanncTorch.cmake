# Defines rannc_deps::torch (LibTorch for the CPU) and rannc_deps::gloo (its process groups over Gloo).
#
# Only libtorch_cpu and libc10 are linked: libtorch would drag in CUDA, and find_package(Torch) of a CUDA wheel demands a
# CUDA toolkit. A file that sees these headers must not include ONNX: LibTorch exports an ONNX and a Protocol Buffers of
# its own. So that it cannot happen by accident, and so that its bundled {fmt} does not shadow the system's, only
# LibTorch's own folders are linked into an include folder of ours.
set(RANNC_TORCH_DIR "" CACHE PATH "A LibTorch >= 2.11 (holds include/ and lib/); empty: the one that tools/setup fetched")

set(torch_dir "${RANNC_TORCH_DIR}")
if(NOT torch_dir)
  rannc_setup_path(venv venv)
  file(GLOB torch_dir ${venv}/lib/python3*/site-packages/torch)
endif()
if(NOT EXISTS "${torch_dir}/lib/libtorch_cpu.so" OR NOT EXISTS "${torch_dir}/include/torch/headeronly/version.h")
  message(FATAL_ERROR "No LibTorch >= 2.11 in '${torch_dir}': run tools/setup, or give -DRANNC_TORCH_DIR=<folder>, "
                      "or build without it by -DRANNC_TORCH=OFF")
endif()

file(STRINGS "${torch_dir}/include/torch/headeronly/version.h" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" RANNC_TORCH_VERSION "${lines}")
if(RANNC_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch in ${torch_dir} is ${RANNC_TORCH_VERSION}; rannc needs 2.11 or newer")
endif()
message(STATUS "LibTorch ${RANNC_TORCH_VERSION}: ${torch_dir}")

set(torch_headers ${CMAKE_BINARY_DIR}/torch-headers)
file(MAKE_DIRECTORY ${torch_headers})
foreach(folder ATen c10 caffe2 torch)
  file(CREATE_LINK "${torch_dir}/include/${folder}" ${torch_headers}/${folder} SYMBOLIC)
endforeach()

# libtorch_cpu.so of the CUDA wheel needs two CUDA libraries, which lie beside it in the wheels' layout.
file(GLOB nvidia_folders "${torch_dir}/../nvidia/*/lib")
set(torch_link_options -Wl,--no-as-needed)
foreach(folder IN LISTS nvidia_folders)
  list(APPEND torch_link_options -Wl,-rpath-link,${folder} -Wl,-rpath,${folder})
endforeach()

add_library(rannc_deps::torch INTERFACE IMPORTED)
set_target_properties(rannc_deps::torch PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${torch_headers};${torch_headers}/torch/csrc/api/include"
  INTERFACE_LINK_LIBRARIES "${torch_dir}/lib/libtorch_cpu.so;${torch_dir}/lib/libc10.so"
  INTERFACE_LINK_OPTIONS "${torch_link_options}")

# The wheel's headers of c10d over Gloo include Gloo's, which it does not ship: a few declarations of ours stand in for
# them. That they fit this LibTorch's binary interface is an assumption, which the check program tests.
add_library(rannc_deps::gloo INTERFACE IMPORTED)
set(gloo_abi ${CMAKE_SOURCE_DIR}/runtime/internal/gloo_abi)
set_target_properties(rannc_deps::gloo PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${gloo_abi}
  INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
  INTERFACE_LINK_LIBRARIES rannc_deps::torch)

# The check takes 15 s, so its success is remembered in the user's cache, by LibTorch and by what was compiled.
function(rannc_check_gloo_abi)
  set(program ${CMAKE_SOURCE_DIR}/tools/cmake/checks/gloo_abi.cc)
  file(GLOB_RECURSE declarations ${gloo_abi}/*.h)
  set(evidence "${torch_dir} ${RANNC_TORCH_VERSION} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(file IN LISTS declarations ITEMS ${program})
    file(SHA256 ${file} hash)
    string(APPEND evidence " ${hash}")
  endforeach()
  string(SHA256 key "${evidence}")
  rannc_setup_path(cache cache)
  if(EXISTS ${cache}/gloo-abi/${key})
    return()
  endif()
  message(STATUS "Checking our declarations of Gloo against LibTorch ${RANNC_TORCH_VERSION} (15 s, once)")
  try_run(status compiled SOURCES ${program} LINK_LIBRARIES rannc_deps::gloo fmt::fmt CXX_STANDARD 20 NO_CACHE
          COMPILE_OUTPUT_VARIABLE compile_output RUN_OUTPUT_VARIABLE run_output)
  if(NOT compiled)
    message(FATAL_ERROR "runtime/internal/gloo_abi does not compile with LibTorch ${RANNC_TORCH_VERSION}:\n${compile_output}")
  elseif(NOT status EQUAL 0)
    message(FATAL_ERROR "runtime/internal/gloo_abi does not fit LibTorch ${RANNC_TORCH_VERSION} (${status}):\n${run_output}")
  endif()
  file(WRITE ${cache}/gloo-abi/${key} "")
endfunction()
rannc_check_gloo_abi()
