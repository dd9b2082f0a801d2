# Finds every third-party library once, under one imported target each.

# Other pins lead to other folders.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/setup-versions)

# rannc_setup_path(onnx VARIABLE) sets VARIABLE to where tools/setup puts that dependency.
function(rannc_setup_path name variable)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/setup-paths OUTPUT_VARIABLE paths COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "(^|\n)${name}=([^\n]*)" ignored "${paths}")
  set(${variable} "${CMAKE_MATCH_2}" PARENT_SCOPE)
endfunction()

include(RanncWheel)
if(NOT TARGET fmt::fmt)
  find_package(fmt REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(RANNC_TESTS)
  find_package(GTest REQUIRED)
endif()
include(RanncThirdParty)

if(RANNC_TORCH)
  rannc_setup_path(venv venv)
  file(GLOB RANNC_TORCH_CACHED ${venv}/lib/python3*/site-packages/torch)
  include(RanncTorch)
  if(RANNC_TORCH_PROBLEM)
    message(FATAL_ERROR "${RANNC_TORCH_PROBLEM}: run tools/setup, or give -DRANNC_TORCH_DIR=<folder>, or build without "
                        "it by -DRANNC_TORCH=OFF")
  endif()
  include(RanncGloo)
  include(RanncCuda)
endif()
if(RANNC_ONNX)
  include(RanncOnnx)
endif()
