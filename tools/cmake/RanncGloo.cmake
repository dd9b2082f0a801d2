# Lets our own sources see LibTorch's headers of c10d over Gloo, and checks that what stands in for Gloo's headers fits.
#
# The wheel's headers include Gloo's, which it does not ship: a few declarations of ours stand in for them. That they fit
# this LibTorch's binary interface is an assumption, which the check program tests.
set(gloo_abi ${CMAKE_SOURCE_DIR}/runtime/internal/gloo_abi)
set_target_properties(rannc_deps::gloo PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${gloo_abi}
  INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO")

# The check takes 15 s, so its success is remembered in the user's cache, by LibTorch and by what was compiled.
function(rannc_check_gloo_abi)
  set(program ${CMAKE_SOURCE_DIR}/tools/cmake/checks/gloo_abi.cc)
  file(GLOB_RECURSE declarations ${gloo_abi}/*.h)
  set(evidence "${RANNC_TORCH_FOLDER} ${RANNC_TORCH_VERSION} ${CMAKE_CXX_COMPILER_VERSION}")
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
