# Targets for libraries that ship no CMake package: rannc_deps::metis, rannc_deps::sodium, rannc_deps::xxhash. Read by the
# build and by the installed package.
#
# A wheel links static libraries, if a distribution has them.
function(rannc_plain_library name header library)
  if(TARGET rannc_deps::${name})
    return()
  endif()
  string(TOUPPER ${name} upper)
  find_path(RANNC_${upper}_INCLUDE ${header} REQUIRED)
  set(names ${library})
  if(RANNC_WHEEL)
    list(PREPEND names lib${library}.a)
  endif()
  find_library(RANNC_${upper}_LIBRARY NAMES ${names} REQUIRED)
  mark_as_advanced(RANNC_${upper}_INCLUDE RANNC_${upper}_LIBRARY)
  add_library(rannc_deps::${name} INTERFACE IMPORTED)
  set_target_properties(rannc_deps::${name} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${RANNC_${upper}_INCLUDE}"
    INTERFACE_LINK_LIBRARIES "${RANNC_${upper}_LIBRARY}")
endfunction()

rannc_plain_library(metis metis.h metis)
rannc_plain_library(sodium sodium.h sodium)
rannc_plain_library(xxhash xxhash.h xxhash)
