# What makes a build from nothing short: precompiled headers, several sources per compilation, less optimization of cold code,
# ccache where it is found.
#
# Almost half of a compilation was spent on the headers of the standard library, {fmt}, GoogleTest and LibTorch. Each kind of
# target below includes a precompiled header of what its sources mostly use. Sources still include what they need: presets
# where warnings are errors build without, which proves it, and GCC warns of code inside precompiled system headers.
set(rannc_pch_default ON)
if(RANNC_WERROR)
  set(rannc_pch_default OFF)
endif()
option(RANNC_PCH "Precompile the headers of third parties" ${rannc_pch_default})

# Sources of a library are compiled eight at once: headers are most of what a source costs. Helpers in unnamed namespaces must then
# differ by name within a library; where tables of equal names are the design, the sources stay apart, as do the
# hot data structures of the IR, which are a few per cent slower when compiled together.
option(RANNC_UNITY "Compile several sources of a library at once" ${rannc_pch_default})
set(RANNC_APART "^(passes/fusions|ir/dim|ir/graph|ir/text)/")

find_program(RANNC_CCACHE ccache)
mark_as_advanced(RANNC_CCACHE)
if(RANNC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${RANNC_CCACHE})
endif()

set(RANNC_HOT_FOLDERS ir partition runtime tests/bench)  # optimized as CMAKE_BUILD_TYPE says

set(rannc_headers_std <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <tuple>
    <unordered_map> <utility> <variant> <vector>)
set(rannc_headers_torch ${rannc_headers_std} <ATen/ATen.h>)
set(rannc_headers_tools ${rannc_headers_std} <CLI/CLI.hpp> <nlohmann/json.hpp>)
set(rannc_headers_tests ${rannc_headers_std} <gmock/gmock.h> <gtest/gtest.h>)
set(rannc_headers_torch_tests ${rannc_headers_tests} <ATen/ATen.h>)

# The target whose precompiled header targets of that kind, of hot folders or of others, reuse.
function(rannc_precompiled kind hot result)
  set(name rannc_pch_${kind})
  if(NOT hot)
    string(APPEND name _cold)
  endif()
  set(${result} ${name} PARENT_SCOPE)
  if(TARGET ${name})
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/pch/${name}.cc CONTENT "// Only its precompiled header counts.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/pch/${name}.cc)
  target_link_libraries(${name} PRIVATE rannc_flags fmt::fmt)
  if(kind MATCHES torch)
    target_link_libraries(${name} PRIVATE rannc_deps::torch)
  endif()
  if(kind MATCHES tests)
    target_link_libraries(${name} PRIVATE GTest::gmock)
  endif()
  rannc_optimize(${name} ${hot})
  target_precompile_headers(${name} PRIVATE ${rannc_headers_${kind}})
endfunction()

# Executables compile as libraries do, so that both can include the same precompiled header.
function(rannc_optimize target hot)
  if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT hot)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  if(RANNC_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# Which headers a target's sources mostly use. A source that sees LibTorch's headers must not see ONNX's.
function(rannc_kind_of target folder result)
  get_target_property(links ${target} LINK_LIBRARIES)
  set(torch FALSE)
  if(links MATCHES "rannc_deps::(torch|gloo)" AND NOT links MATCHES "rannc_deps::onnx|rannc_frontend_test_support|rannc_frontend_zoo")
    set(torch TRUE)
  endif()
  if(folder MATCHES "^tests")
    set(kind tests)
    if(torch)
      set(kind torch_tests)
    endif()
  elseif(torch)
    set(kind torch)
  elseif(folder MATCHES "^tools")
    set(kind tools)
  else()
    set(kind std)
  endif()
  set(${result} ${kind} PARENT_SCOPE)
endfunction()

# Compiles the sources of a library several at once.
function(rannc_unite target folder)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/${folder})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE path)
    if(path MATCHES "${RANNC_APART}")
      set_source_files_properties(${source} DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# Applies all of this to every target below a folder of the source tree, `.` for all.
function(rannc_shorten_compilation folder)
  get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} PROPERTY BUILDSYSTEM_TARGETS)
  set(hot FALSE)
  foreach(prefix IN LISTS RANNC_HOT_FOLDERS)
    if(folder MATCHES "^${prefix}(/|$)")
      set(hot TRUE)
    endif()
  endforeach()
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(EXECUTABLE|STATIC_LIBRARY|SHARED_LIBRARY)$")
      continue()
    endif()
    rannc_optimize(${target} ${hot})
    if(RANNC_UNITY AND NOT type STREQUAL EXECUTABLE)
      rannc_unite(${target} ${folder})
    endif()
    if(RANNC_PCH)
      rannc_kind_of(${target} ${folder} kind)
      rannc_precompiled(${kind} ${hot} header)
      target_link_libraries(${target} PRIVATE fmt::fmt)
      get_target_property(links ${target} LINK_LIBRARIES)
      if(kind MATCHES tests AND NOT links MATCHES "GTest|rannc_test_main")
        # What GoogleTest's own target defines; a macro that differs keeps the compiler from using the precompiled header.
        target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)
      endif()
      target_precompile_headers(${target} REUSE_FROM ${header})
    endif()
  endforeach()
  get_property(below DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} PROPERTY SUBDIRECTORIES)
  foreach(sub IN LISTS below)
    file(RELATIVE_PATH sub ${CMAKE_SOURCE_DIR} ${sub})
    # Targets there are nanobind's, with flags of their own.
    if(NOT sub STREQUAL tools/python)
      rannc_shorten_compilation(${sub})
    endif()
  endforeach()
endfunction()
