# What the project needs from the distribution. One place for all find_* calls; what is missing is reported all at
# once, with the names of the packages.
set(missing "")

# need(NAME PACKAGE find_package arguments…)
macro(need name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    list(APPEND missing ${package})
  endif()
endmacro()

# need_header(HEADER PACKAGE): for libraries that come without a CMake package.
macro(need_header header package)
  string(MAKE_C_IDENTIFIER "MINIDDP_${header}_DIR" variable)
  find_path(${variable} ${header})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    list(APPEND missing ${package})
  endif()
endmacro()

need(Threads libc6-dev)
need(OpenMP g++ COMPONENTS CXX)
need(ZLIB zlib1g-dev)
need(fmt libfmt-dev CONFIG)
need(dnnl libdnnl-dev CONFIG)
need(nlohmann_json nlohmann-json3-dev CONFIG)
need(CLI11 libcli11-dev CONFIG)
need(Gloo libgloo-dev CONFIG)
need(benchmark libbenchmark-dev CONFIG)
need_header(stb/stb_image.h libstb-dev)

# Catch2: version 3 where there is one, else 2. Tests include tests/support/catch.h, which hides the difference.
find_package(Catch2 3 CONFIG QUIET)
if(NOT Catch2_FOUND)
  need(Catch2 catch2 2 CONFIG)
endif()

if(missing)
  list(JOIN missing " " names)
  message(FATAL_ERROR "Libraries are missing. On Debian and Ubuntu ./tutorial installs them, or by hand:\n"
    "  apt-get install ${names}\n"
    "If one is installed in a place of its own, name it: cmake -DCMAKE_PREFIX_PATH=…")
endif()
message(STATUS "Catch2 ${Catch2_VERSION}, fmt ${fmt_VERSION}, oneDNN ${dnnl_VERSION}, CLI11 ${CLI11_VERSION}")

# The Python that runs reference programs: the distribution's, since its PyTorch is a package; else the first on PATH.
find_program(MINIDDP_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "Python of the reference programs")
find_program(MINIDDP_PYTHON python3)
if(NOT MINIDDP_PYTHON)
  message(STATUS "No python3: tests that need it are skipped")
  set(MINIDDP_PYTHON python3)
endif()

# Gloo has headers and a library in the distribution, but nothing for CMake to find it by. Without it chapter 04 has its own
# "ring" backend only.
find_path(GLOO_INCLUDE_DIR gloo/rendezvous/context.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY)
  set(MINIDDP_HAVE_GLOO ON)
  add_library(miniddp_gloo INTERFACE)
  target_include_directories(miniddp_gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
  target_link_libraries(miniddp_gloo INTERFACE ${GLOO_LIBRARY})
else()
  set(MINIDDP_HAVE_GLOO OFF)
  message(STATUS "Gloo not found (package libgloo-dev): the backend \"gloo\" of chapters 04 to 06 is not built, \"ring\" is")
endif()

# Only the target `benchmarks` needs it, and it is left out where the library is missing.
find_package(benchmark CONFIG QUIET)
