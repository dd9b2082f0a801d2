# Finds LibTorch and defines rannc_deps::torch (for the CPU) and rannc_deps::gloo (its process groups over Gloo). Read
# by the build and by the installed package.
#
# Looks in RANNC_TORCH_DIR, then beside Torch_DIR, then in RANNC_TORCH_CACHED, the folder of tools/setup. Sets
# RANNC_TORCH_FOLDER and RANNC_TORCH_VERSION, or RANNC_TORCH_PROBLEM to what is wrong, and then defines nothing.
#
# Only libtorch_cpu and libc10 are linked: libtorch would drag in CUDA, and find_package(Torch) of a CUDA wheel demands a
# CUDA toolkit. A file that sees these headers must not include ONNX: LibTorch exports an ONNX and a Protocol Buffers of
# its own. So that it cannot happen by accident, and so that its bundled {fmt} does not shadow the system's, only
# LibTorch's own folders are linked into an include folder of ours.
set(RANNC_TORCH_DIR "" CACHE PATH "A LibTorch >= 2.11 (holds include/ and lib/); empty: Torch_DIR's, then the one that tools/setup fetched")

set(RANNC_TORCH_PROBLEM "")
set(RANNC_TORCH_FOLDER "${RANNC_TORCH_DIR}")
if(NOT RANNC_TORCH_FOLDER AND Torch_DIR)
  # Torch_DIR names the folder of LibTorch's own CMake package, <LibTorch>/share/cmake/Torch.
  get_filename_component(RANNC_TORCH_FOLDER "${Torch_DIR}/../../.." ABSOLUTE)
endif()
if(NOT RANNC_TORCH_FOLDER)
  set(RANNC_TORCH_FOLDER "${RANNC_TORCH_CACHED}")
endif()
set(rannc_torch_header "${RANNC_TORCH_FOLDER}/include/torch/headeronly/version.h")
if(NOT EXISTS "${RANNC_TORCH_FOLDER}/lib/libtorch_cpu.so" OR NOT EXISTS "${rannc_torch_header}")
  set(RANNC_TORCH_PROBLEM "No LibTorch >= 2.11 in '${RANNC_TORCH_FOLDER}'")
  return()
endif()
file(STRINGS "${rannc_torch_header}" rannc_torch_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" RANNC_TORCH_VERSION "${rannc_torch_lines}")
if(RANNC_TORCH_VERSION VERSION_LESS 2.11)
  set(RANNC_TORCH_PROBLEM "LibTorch in ${RANNC_TORCH_FOLDER} is ${RANNC_TORCH_VERSION}; rannc needs 2.11 or newer")
  return()
endif()
if(TARGET rannc_deps::torch)
  return()
endif()
message(STATUS "LibTorch ${RANNC_TORCH_VERSION}: ${RANNC_TORCH_FOLDER}")

set(rannc_torch_headers ${CMAKE_BINARY_DIR}/torch-headers)
file(MAKE_DIRECTORY ${rannc_torch_headers})
foreach(folder ATen c10 caffe2 torch)
  file(CREATE_LINK "${RANNC_TORCH_FOLDER}/include/${folder}" ${rannc_torch_headers}/${folder} SYMBOLIC)
endforeach()

# libtorch_cpu.so of the CUDA wheel needs two CUDA libraries, which lie beside it in the wheels' layout.
file(GLOB RANNC_TORCH_LIBRARY_FOLDERS "${RANNC_TORCH_FOLDER}/../nvidia/*/lib")
set(rannc_torch_link_options -Wl,--no-as-needed)
foreach(folder IN LISTS RANNC_TORCH_LIBRARY_FOLDERS)
  list(APPEND rannc_torch_link_options -Wl,-rpath-link,${folder})
  if(NOT RANNC_WHEEL)  # which must not name folders of the machine that built it
    list(APPEND rannc_torch_link_options -Wl,-rpath,${folder})
  endif()
endforeach()
list(APPEND RANNC_TORCH_LIBRARY_FOLDERS "${RANNC_TORCH_FOLDER}/lib")

add_library(rannc_deps::torch INTERFACE IMPORTED)
set_target_properties(rannc_deps::torch PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${rannc_torch_headers};${rannc_torch_headers}/torch/csrc/api/include"
  INTERFACE_LINK_LIBRARIES "${RANNC_TORCH_FOLDER}/lib/libtorch_cpu.so;${RANNC_TORCH_FOLDER}/lib/libc10.so"
  INTERFACE_LINK_OPTIONS "${rannc_torch_link_options}")
add_library(rannc_deps::gloo INTERFACE IMPORTED)
set_target_properties(rannc_deps::gloo PROPERTIES INTERFACE_LINK_LIBRARIES rannc_deps::torch)
