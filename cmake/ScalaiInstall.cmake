# `cmake --install` and Debian packages. Components: scalai (planning, checkpoints, datasets, many jobs), sim, exec, fs and
# dev (headers, static libraries, find_package(Scalai)); each is a package of its own.
include(GNUInstallDirs)
set(_share "${CMAKE_INSTALL_DATADIR}/scalai")

# scalai_install_program(COMPONENT scalai TARGET scalai COMMANDS import policies …): the executable, a man page for it
# and for each of its commands, and completions for bash, zsh and fish. Programs write their pages themselves.
set(SCALAI_PROGRAMS "")
function(scalai_install_program)
  cmake_parse_arguments(ARG "" "COMPONENT;TARGET" "COMMANDS" ${ARGN})
  if(NOT TARGET ${ARG_TARGET})
    return()
  endif()
  set(SCALAI_PROGRAMS ${SCALAI_PROGRAMS} ${ARG_TARGET} PARENT_SCOPE)
  install(TARGETS ${ARG_TARGET} COMPONENT ${ARG_COMPONENT})
  install(CODE "
    set(PROGRAM \"$<TARGET_FILE:${ARG_TARGET}>\")
    set(COMMANDS \"${ARG_COMMANDS}\")
    set(MAN \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\")
    set(SHARE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    include(\"${CMAKE_SOURCE_DIR}/cmake/ScalaiPages.cmake\")" COMPONENT ${ARG_COMPONENT})
endfunction()
scalai_install_program(COMPONENT scalai TARGET scalai COMMANDS validate models machines plan parallelize compare report
                       replay policies import sweep breakeven init explain schema checkpoint "checkpoint reshard"
                       data "data index" "data show")
# Programs of before, for a release.
install(CODE "
  foreach(_former scalai-checkpoint scalai-data scalai-jobs)
    set(_link \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\${_former}\")
    file(CREATE_LINK scalai \"\$ENV{DESTDIR}\${_link}\" SYMBOLIC)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${_link}\")
  endforeach()" COMPONENT scalai)
scalai_install_program(COMPONENT scalai TARGET scalai-bounds)
scalai_install_program(COMPONENT scalai TARGET scalai-near COMMANDS near worker)
scalai_install_program(COMPONENT scalai TARGET scalai-accuracy COMMANDS accuracy "accuracy model" "accuracy policies")
scalai_install_program(COMPONENT sim TARGET scalai-sim)
scalai_install_program(COMPONENT exec TARGET scalai-exec COMMANDS launch worker sync ctl bench calibrate doctor)
scalai_install_program(COMPONENT fs TARGET scalai-fs COMMANDS mount unmount repartition status)

install(DIRECTORY scenarios/ DESTINATION "${_share}/scenarios" COMPONENT scalai USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ptc/proto/ DESTINATION "${_share}/proto/ptc/proto" COMPONENT scalai FILES_MATCHING PATTERN "*.proto")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" COMPONENT scalai)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT scalai)

# --- libraries ---------------------------------------------------------------------------------------------------------
# The planning core. Scalai::plan is ptc/plan with all it needs; headers keep their paths: #include "ptc/plan/planner.h".
# scalai_install_library(ptc_plan plan ptc/plan): the target, its name outside, its headers' folder.
set(SCALAI_LIBRARIES "")
function(scalai_install_library target name folder)
  set(SCALAI_LIBRARIES ${SCALAI_LIBRARIES} ${target} PARENT_SCOPE)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME scalai_${name})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/scalai>)
  install(TARGETS ${target} EXPORT ScalaiTargets ARCHIVE COMPONENT dev)
  if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/${folder}")
    install(DIRECTORY "${folder}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/scalai/${folder}" COMPONENT dev
            FILES_MATCHING PATTERN "*.h" PATTERN internal EXCLUDE PATTERN testing EXCLUDE PATTERN commands EXCLUDE)
  endif()
endfunction()
foreach(_folder base state/tensor state/model proto textproto state/collection cluster plan cost/change cost/step)
  get_filename_component(_library "${_folder}" NAME)
  scalai_install_library(ptc_${_library} ${_library} ptc/${_folder})
endforeach()
if(SCALAI_LABS)
  scalai_install_library(scalai_bounds bounds labs/bounds)
  scalai_install_library(scalai_offload offload labs/bounds/offload)
endif()
# For a release, headers where they were lead to the new place, and what was scalai::parallel is found there, too.
# scalai_install_moved(labs/bounds ptc/bounds [code]): each header of a folder, under the old name of the folder.
function(scalai_install_moved folder old)
  file(GLOB _headers RELATIVE "${CMAKE_SOURCE_DIR}/${folder}" "${folder}/*.h")
  foreach(_header IN LISTS _headers)
    file(WRITE "${CMAKE_BINARY_DIR}/generated/moved/${old}/${_header}"
         "#pragma once\n#include \"${folder}/${_header}\"\n${ARGV2}\n")
  endforeach()
endfunction()
foreach(_folder tensor model collection)
  scalai_install_moved(ptc/state/${_folder} ptc/${_folder})
endforeach()
scalai_install_moved(ptc/cost/change ptc/change)
scalai_install_moved(ptc/cost/step ptc/parallel "namespace scalai { namespace parallel = step; }")
if(SCALAI_LABS)
  scalai_install_moved(labs/bounds ptc/bounds)
  scalai_install_moved(labs/bounds/offload ptc/parallel
    "namespace scalai { namespace step { using namespace offload; } namespace parallel = step; }")
endif()
install(DIRECTORY "${CMAKE_BINARY_DIR}/generated/moved/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/scalai" COMPONENT dev)
install(FILES "${CMAKE_BINARY_DIR}/generated/ptc/base/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/scalai/ptc/base" COMPONENT dev)
set(_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/Scalai")
install(EXPORT ScalaiTargets NAMESPACE Scalai:: DESTINATION "${_cmake}" COMPONENT dev)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/ScalaiConfig.cmake.in "${CMAKE_BINARY_DIR}/generated/ScalaiConfig.cmake"
                              INSTALL_DESTINATION "${_cmake}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/ScalaiConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/ScalaiConfig.cmake" "${CMAKE_BINARY_DIR}/generated/ScalaiConfigVersion.cmake"
        DESTINATION "${_cmake}" COMPONENT dev)
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libscalai-dev" COMPONENT dev)

# Everything that is installed; `./dev package` builds this.
add_custom_target(installed DEPENDS ${SCALAI_PROGRAMS} ${SCALAI_LIBRARIES})
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

include(ScalaiPackage)
