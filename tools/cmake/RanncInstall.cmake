# What `cmake --install` puts under its prefix: programs, libraries, public headers, and the CMake package by which
# find_package(rannc) finds them. Nothing in the package names a folder of the machine that built it, so that the prefix
# can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rannc_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rannc)

# rannc_install_library(ir) puts rannc_ir into the package as rannc::ir.
function(rannc_install_library name)
  set_target_properties(rannc_${name} PROPERTIES EXPORT_NAME ${name} INSTALL_RPATH "$ORIGIN")
  install(TARGETS rannc_${name} EXPORT rannc)
endfunction()

# A program finds LibTorch where it was linked: that lies outside the prefix. In a wheel (tools/python/wheel.cmake) it lies beside.
function(rannc_install_program name)
  if(RANNC_WHEEL)
    return()
  endif()
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${RANNC_TORCH_LIBRARY_FOLDERS}")
  install(TARGETS ${name})
endfunction()

# The package itself, once all libraries are declared.
function(rannc_install_package)
  install(TARGETS rannc_flags EXPORT rannc)
  # Headers under internal/ are no headers of the package, nor is what codegen alone has of the runtime.
  foreach(folder ir partition runtime)
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rannc FILES_MATCHING PATTERN "*.h"
            PATTERN internal EXCLUDE PATTERN aten EXCLUDE PATTERN flat EXCLUDE PATTERN native EXCLUDE PATTERN cuda EXCLUDE PATTERN examples EXCLUDE PATTERN allocation_meter.h EXCLUDE)
  endforeach()
  if(TARGET rannc_compiler)
    install(DIRECTORY tools/compiler/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    if(NOT BUILD_SHARED_LIBS)
      # ONNX in our private namespace, which no other package provides. A shared rannc::compiler contains it.
      install(FILES $<TARGET_FILE:ONNX::onnx> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME librannc_onnx.a)
      install(FILES $<TARGET_FILE:ONNX::onnx_proto> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME librannc_onnx_proto.a)
    endif()
    set(RANNC_COMPILER ON)
  endif()
  install(EXPORT rannc NAMESPACE rannc:: FILE ranncTargets.cmake DESTINATION ${rannc_package_folder})
  if(RANNC_TORCH)
    rannc_setup_path(venv venv)
    get_filename_component(RANNC_TORCH_CACHE_NAME ${venv} NAME)
  endif()
  set(scripts ${CMAKE_SOURCE_DIR}/tools/cmake)
  configure_package_config_file(${scripts}/ranncConfig.cmake.in ${CMAKE_BINARY_DIR}/package/ranncConfig.cmake
                                INSTALL_DESTINATION ${rannc_package_folder})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/ranncConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/package/ranncConfig.cmake ${CMAKE_BINARY_DIR}/package/ranncConfigVersion.cmake
                ${scripts}/RanncThirdParty.cmake ${scripts}/RanncTorch.cmake
          DESTINATION ${rannc_package_folder})
endfunction()
