# What the project needs from the distribution. One place for all find_* calls.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(dnnl CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 CONFIG REQUIRED)

# Catch2: version 3 where there is one, else 2. Tests include tests/support/catch.h, which hides the difference.
find_package(Catch2 3 CONFIG QUIET)
if(NOT Catch2_FOUND)
  find_package(Catch2 2 CONFIG REQUIRED)
endif()
message(STATUS "Catch2 ${Catch2_VERSION}, fmt ${fmt_VERSION}, oneDNN ${dnnl_VERSION}")
