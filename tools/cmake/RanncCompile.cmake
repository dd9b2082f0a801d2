# Compiler flags, and the functions by which folders declare a library, a test, a fuzz target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# What all of ours is compiled with. Whoever uses the installed package gets the headers and the language, not the warnings.
add_library(rannc_flags INTERFACE)
target_include_directories(rannc_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/rannc>)
target_compile_features(rannc_flags INTERFACE cxx_std_20)
set(warnings -Wall -Wextra -Wno-missing-field-initializers "$<$<CXX_COMPILER_ID:GNU>:$<$<BOOL:${RANNC_PCH}>:-Wno-array-bounds>;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>"
             $<$<BOOL:${RANNC_WERROR}>:-Werror>)
target_compile_options(rannc_flags INTERFACE "$<BUILD_INTERFACE:${warnings}>")
find_package(Threads REQUIRED)
target_link_libraries(rannc_flags INTERFACE Threads::Threads)

set(RANNC_SANITIZE "" CACHE STRING "Sanitizers for our own code, as the compiler's -fsanitize= takes them")
if(RANNC_SANITIZE)
  # GCC takes what its own instrumentation hides for uninitialized.
  set(sanitize_flags -fsanitize=${RANNC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                     $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(rannc_flags INTERFACE ${sanitize_flags})
  target_link_options(rannc_flags INTERFACE ${sanitize_flags})
endif()

# rannc_library(ir SOURCES graph.cc … DEPENDS … [INSTALLED]) declares the library rannc_ir, alias rannc::ir. INSTALLED: others find
# it in the package under the same alias, shared if BUILD_SHARED_LIBS says so.
function(rannc_library name)
  cmake_parse_arguments(arg "INSTALLED" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(arg_INSTALLED)
    add_library(rannc_${name} ${arg_SOURCES})
  else()
    add_library(rannc_${name} STATIC ${arg_SOURCES})  # a part of our programs alone
  endif()
  add_library(rannc::${name} ALIAS rannc_${name})
  set_target_properties(rannc_${name} PROPERTIES DEFINE_SYMBOL "")  # objects are the same, static or shared
  target_link_libraries(rannc_${name} PUBLIC rannc_flags ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  if(arg_INSTALLED)
    rannc_install_library(${name})
  endif()
endfunction()

# rannc_idle_threads(ir_graph_test …) lets the threads of LibTorch's operators sleep while they wait in these tests. They spin
# otherwise, and two tests at once take each other's processors: five to eight times the processor time was measured.
function(rannc_idle_threads)
  set_property(TEST ${ARGN} PROPERTY ENVIRONMENT_MODIFICATION OMP_WAIT_POLICY=set:passive)
endfunction()

# rannc_whole(ir_graph_test COMMAND ir_graph_test LABELS R1) adds the test ir_graph_whole_test to tier "full". It runs the
# command with RANNC_TIER=full, by which a test with a part in tier "suite" runs the rest, too.
function(rannc_whole name)
  cmake_parse_arguments(arg "" "" "COMMAND;LABELS" ${ARGN})
  string(REGEX REPLACE "_test$" "_whole_test" whole ${name})
  add_test(NAME ${whole} COMMAND ${arg_COMMAND})
  set_tests_properties(${whole} PROPERTIES LABELS "${arg_LABELS};full" TIMEOUT 2400 SKIP_RETURN_CODE 77 ENVIRONMENT "RANNC_TIER=full")
  rannc_idle_threads(${whole})
endfunction()

# rannc_test(ir_graph_test SOURCES graph_test.cc DEPENDS rannc::ir LABELS R1 N8 [TIER full] [TIMEOUT 120] [WHOLE])
# Every label is a requirement's id of tests/requirements.md. The tier is "suite" unless said. WHOLE: the test asks for its tier
# (tests/support/tier.h) and runs in both.
function(rannc_test name)
  cmake_parse_arguments(arg "WHOLE" "TIER;TIMEOUT" "SOURCES;DEPENDS;LABELS;ARGS" ${ARGN})
  if(NOT arg_TIER)
    set(arg_TIER suite)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} rannc_flags rannc_test_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE RANNC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" RANNC_BINARY_DIR="${CMAKE_BINARY_DIR}")
  # One CTest entry a binary: start-up of LibTorch is not paid for each of some hundred cases.
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};${arg_TIER}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
  rannc_idle_threads(${name})
  if(arg_WHOLE)
    rannc_whole(${name} COMMAND ${name} LABELS ${arg_LABELS})
  endif()
endfunction()

# rannc_fuzz(fuzz_cluster SOURCES fuzz_cluster.cc SEEDS a.toml … DEPENDS rannc::partition LABELS N3 [RUNS 2000] [EDITS edit_model.cc])
# SOURCES define rannc::fuzz::feed, EDITS rannc::fuzz::edit (tests/fuzz/target.h). Under the preset "fuzz" it is a libFuzzer program in bin/, to
# be given a corpus, and a test that feeds it the seeds; otherwise a test that feeds it RUNS mutations of the seeds, the same on every run.
function(rannc_fuzz name)
  cmake_parse_arguments(arg "" "RUNS;EDITS" "SOURCES;SEEDS;DEPENDS;LABELS" ${ARGN})
  if(NOT arg_RUNS)
    set(arg_RUNS 2000)
  endif()
  set(folder ${CMAKE_SOURCE_DIR}/tests/fuzz)
  list(TRANSFORM arg_SEEDS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  add_executable(${name} ${arg_SOURCES} ${arg_EDITS})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} rannc_flags)
  if(RANNC_SANITIZE MATCHES "fuzzer-no-link")
    target_sources(${name} PRIVATE ${folder}/libfuzzer_entry.cc)
    if(arg_EDITS)
      target_sources(${name} PRIVATE ${folder}/libfuzzer_edits.cc)
    endif()
    target_link_libraries(${name} PRIVATE rannc_fuzz_bytes)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(command ${name} -runs=1 ${arg_SEEDS})  # files that are named are fed as they are
  else()
    set(edits rannc_fuzz_text)
    if(arg_EDITS)
      set(edits rannc_fuzz_bytes)
    endif()
    target_link_libraries(${name} PRIVATE rannc_fuzz_main ${edits})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set(command ${name} ${arg_RUNS} ${arg_SEEDS})
  endif()
  add_test(NAME ${name} COMMAND ${command})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};suite" TIMEOUT 300)
endfunction()
