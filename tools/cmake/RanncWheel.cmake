# Prepares a build of what a Python wheel contains (RANNC_WHEEL): programs and the extension find LibTorch beside the package,
# and contain the libraries of other third parties.
#
# A bundle has copies of rannc-stage, which are not beside libraries of the wheel: what is static needs none there.
option(RANNC_WHEEL "Build the contents of a Python wheel, for pip and tools/wheel" OFF)
if(NOT RANNC_WHEEL)
  return()
endif()

# Distributions have a shared {fmt} alone.
find_path(RANNC_FMT_INCLUDE fmt/format.h REQUIRED)
mark_as_advanced(RANNC_FMT_INCLUDE)
add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${RANNC_FMT_INCLUDE}" INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)

# rannc_compiled_library(NAME HEADER PATTERN VERSION) defines the imported target `library` over what tools/python/static compiles:
# static libraries of a distribution do not fit into a shared one. ONNX and sources of ours were compiled with the headers of
# the system, whose version has to be that of the sources.
rannc_setup_path(sources RANNC_SOURCES)
function(rannc_compiled_library library header pattern version)
  get_filename_component(name ${header} NAME_WE)
  string(TOUPPER RANNC_${name}_HEADER_INCLUDE variable)
  find_path(${variable} ${header} REQUIRED)
  mark_as_advanced(${variable})
  file(STRINGS ${${variable}}/${header} found REGEX "${pattern}")
  string(REGEX REPLACE "[^0-9;]" "" found "${found}")
  if(NOT found STREQUAL version)
    message(FATAL_ERROR "${${variable}}/${header} has version ${found}; a wheel needs ${version}, of the sources that tools/setup fetched")
  endif()
  string(REGEX REPLACE ".*:(lib)?" "" name ${library})
  add_library(${library} INTERFACE IMPORTED)
  set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${${variable}}" INTERFACE_LINK_LIBRARIES rannc_${name})
endfunction()
enable_language(C)  # of METIS
rannc_compiled_library(protobuf::libprotobuf google/protobuf/stubs/common.h "define GOOGLE_PROTOBUF_VERSION [0-9]+" 3021012)
rannc_compiled_library(rannc_deps::metis metis.h "define (METIS_VER_(MAJOR|MINOR|SUBMINOR)|(IDX|REAL)TYPEWIDTH) +[0-9]+" "32;32;5;1;0")

# The compilations that memory allows at a time: a source that includes LibTorch takes 1.2 GB.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT megabytes QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR jobs "${megabytes} / 1200")
if(jobs GREATER cores)
  set(jobs ${cores})
elseif(jobs LESS 1)
  set(jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS compilations=${jobs})
set(CMAKE_JOB_POOL_COMPILE compilations)
