# What a wheel contains beside the package's sources: the extension with its stub, the programs in rannc/bin, the plug-in for GPUs
# in rannc/lib. LibTorch lies in torch/lib beside the package.
add_subdirectory(static)
file(STRINGS ${CMAKE_SOURCE_DIR}/pyproject.toml required REGEX "torch==")
string(REGEX REPLACE ".*torch==([0-9.]+).*" "\\1" required "${required}")
if(NOT RANNC_TORCH_VERSION STREQUAL required)
  message(FATAL_ERROR "The wheel requires LibTorch ${required}; ${RANNC_TORCH_FOLDER} has ${RANNC_TORCH_VERSION}")
endif()

set(programs rannc-check rannc-compile rannc-opt rannc-profile rannc-run rannc-stage rannc-zoo)
set(parts rannc_python_stub ${programs})
set_target_properties(rannc_python PROPERTIES INSTALL_RPATH "$ORIGIN/../torch/lib;$ORIGIN/lib")
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../../torch/lib")
# Bundles contain copies. A link `libtorch` in a bundle is searched first.
set_target_properties(rannc-stage PROPERTIES INSTALL_RPATH "$ORIGIN/libtorch;$ORIGIN/../../torch/lib")

install(TARGETS rannc_python LIBRARY DESTINATION rannc COMPONENT python)
install(FILES ${stub} DESTINATION rannc COMPONENT python)
install(FILES rannc_programs.py DESTINATION . COMPONENT python)
install(TARGETS ${programs} RUNTIME DESTINATION rannc/bin COMPONENT python)
if(TARGET rannc_cuda)
  list(APPEND parts rannc_cuda)
  install(TARGETS rannc_cuda LIBRARY DESTINATION rannc/lib COMPONENT python)
endif()
# Licences of what is linked statically or as templates, where a distribution keeps them.
foreach(package libboost-graph-dev libcli11-dev libfmt-dev libmetis-dev libprotobuf-dev libsodium-dev libtomlplusplus-dev
        libxxhash-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION rannc/licenses RENAME ${package}.txt COMPONENT python)
  endif()
endforeach()
if(EXISTS ${NB_DIR}/../nanobind-${nanobind_VERSION}.dist-info/licenses/LICENSE)
  install(FILES ${NB_DIR}/../nanobind-${nanobind_VERSION}.dist-info/licenses/LICENSE DESTINATION rannc/licenses
          RENAME nanobind.txt COMPONENT python)
endif()
add_custom_target(rannc_wheel DEPENDS ${parts})
