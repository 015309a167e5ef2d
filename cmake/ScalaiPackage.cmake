# Debian packages, one a component: `./dev package`, or `cpack --config build/CPackConfig.cmake`.
set(SCALAI_PACKAGE_CONTACT "Scalai authors <scalai@example.org>" CACHE STRING "Maintainer of the Debian packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME scalai)
set(CPACK_PACKAGE_CONTACT "${SCALAI_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL scalai)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Debian wants a changelog of its own form in each package, dated: the revision's day.
execute_process(COMMAND git log -1 --format=%cD WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
                OUTPUT_VARIABLE SCALAI_REVISION_DATE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT SCALAI_REVISION_DATE)
  set(SCALAI_REVISION_DATE "Thu, 01 Jan 1970 00:00:00 +0000")
endif()

# scalai_package(COMPONENT sim NAME scalai-sim SUMMARY "…" TEXT "…" [DEPENDS …])
function(scalai_package)
  cmake_parse_arguments(ARG "" "COMPONENT;NAME;SUMMARY;TEXT;DEPENDS;SECTION" "" ${ARGN})
  string(TOUPPER "${ARG_COMPONENT}" _key)
  set(CPACK_DEBIAN_${_key}_PACKAGE_NAME "${ARG_NAME}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${_key}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${_key}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}" PARENT_SCOPE)
  if(ARG_DEPENDS)
    set(CPACK_DEBIAN_${_key}_PACKAGE_DEPENDS "${ARG_DEPENDS}" PARENT_SCOPE)
  endif()
  if(ARG_SECTION)
    set(CPACK_DEBIAN_${_key}_PACKAGE_SECTION "${ARG_SECTION}" PARENT_SCOPE)
  endif()
  list(APPEND CPACK_COMPONENTS_ALL ${ARG_COMPONENT})
  list(REMOVE_DUPLICATES CPACK_COMPONENTS_ALL)
  set(CPACK_COMPONENTS_ALL "${CPACK_COMPONENTS_ALL}" PARENT_SCOPE)
  set(SCALAI_PACKAGE_NAME "${ARG_NAME}")
  set(_changelog "${CMAKE_BINARY_DIR}/generated/debian/${ARG_NAME}/changelog")
  configure_file(cmake/debian_changelog.in "${_changelog}" @ONLY)
  install(CODE "
    execute_process(COMMAND gzip -9nc \"${_changelog}\" OUTPUT_FILE \"${_changelog}.gz\" COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT ${ARG_COMPONENT})
  install(FILES "${_changelog}.gz" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${ARG_NAME}" COMPONENT ${ARG_COMPONENT})
  install(FILES cmake/debian_copyright DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${ARG_NAME}" RENAME copyright
          COMPONENT ${ARG_COMPONENT})
endfunction()

set(_same "scalai (= ${PROJECT_VERSION})")
scalai_package(COMPONENT scalai NAME scalai SUMMARY "plans reconfigurations of deep-learning jobs"
  TEXT "Scalai describes the state of a training job as a collection of sharded
tensors and plans the cheapest way from one (tp, pp, dp, ep, ZeRO) sharding
to another when GPUs come, go or fail. This package has the planner, the
choice of a configuration, checkpoints in any layout, dataset order, many-
job policies, scenarios and documentation.")
if(TARGET scalai-sim)
  scalai_package(COMPONENT sim NAME scalai-sim DEPENDS "${_same}" SUMMARY "simulates reconfigurations of deep-learning jobs"
    TEXT "Runs Scalai scenarios in virtual time on a modelled cluster, with SimGrid or
an exact max-min solver.")
endif()
if(TARGET scalai-exec)
  scalai_package(COMPONENT exec NAME scalai-exec DEPENDS "${_same}" SUMMARY "executes reconfigurations of deep-learning jobs"
    TEXT "Runs Scalai scenarios on worker processes that hold real state, in host
memory over UCX or on GPUs over NCCL.")
endif()
if(TARGET scalai-fs)
  scalai_package(COMPONENT fs NAME scalai-fs DEPENDS "${_same}, fuse3" SUMMARY "checkpoints in any layout and datasets by rank, as files"
    TEXT "A FUSE file system that shows any checkpoint in any parallel layout without
converting it, and for each data-parallel rank exactly the samples that it
has yet to read.")
endif()
scalai_package(COMPONENT dev NAME libscalai-dev SECTION libdevel
  DEPENDS "libabsl-dev, libboost-program-options-dev, libfmt-dev, libprotobuf-dev, libxxhash-dev, nlohmann-json3-dev, pkgconf | pkg-config"
  SUMMARY "planning core of Scalai, headers and static libraries"
  TEXT "Plans changes of sharded training state from C++: find_package(Scalai),
Scalai::plan.")
include(CPack)
