# Compiler flags and the two functions by which folders declare a library and a test.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(rannc_flags INTERFACE)
target_include_directories(rannc_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(rannc_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${RANNC_WERROR}>:-Werror>)
find_package(Threads REQUIRED)
target_link_libraries(rannc_flags INTERFACE Threads::Threads)

# rannc_library(ir SOURCES graph.cc … DEPENDS …) declares the static library rannc_ir, alias rannc::ir.
function(rannc_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(rannc_${name} STATIC ${arg_SOURCES})
  add_library(rannc::${name} ALIAS rannc_${name})
  target_link_libraries(rannc_${name} PUBLIC rannc_flags ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
endfunction()

# rannc_test(ir_graph_test SOURCES graph_test.cc DEPENDS rannc::ir LABELS R1 N8 [TIER full] [TIMEOUT 120])
# One GoogleTest binary, one CTest entry per TEST; every label is a requirement's id. The tier is "suite" unless said.
# A TEST may carry labels of its own with rannc_label(<binary> <gtest filter> <labels…>).
function(rannc_test name)
  cmake_parse_arguments(arg "" "TIER;TIMEOUT" "SOURCES;DEPENDS;LABELS;ARGS" ${ARGN})
  if(NOT arg_TIER)
    set(arg_TIER suite)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} rannc_flags GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE RANNC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" RANNC_BINARY_DIR="${CMAKE_BINARY_DIR}")
  # One CTest entry a binary: start-up of LibTorch is not paid for each of some hundred cases.
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};${arg_TIER}" TIMEOUT ${arg_TIMEOUT})
endfunction()
