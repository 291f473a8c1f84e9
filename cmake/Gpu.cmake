# CUDA: a real one, the emulator, or none. Everything else in the build uses
#   MINIDDP_GPU                       cuda, emulated or none
#   gpu                               the target to link: CUDA's libraries, or the emulator with its stand-in headers
#   gpu_library(name files...)        a library of .cu files
#   gpu_sources(target files...)      .cu files of another target
# and does not know which it is. MINIDDP_CUDA chooses:
#   AUTO      CUDA where nvcc and a GPU are found, else the emulator, else none
#   ON        CUDA; an error without nvcc (a GPU is needed only to run)
#   EMULATED  the emulator; an error without Boost.Context or OpenBLAS
#   OFF       none
set(MINIDDP_CUDA AUTO CACHE STRING "AUTO, ON, OFF or EMULATED")
set_property(CACHE MINIDDP_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
set(MINIDDP_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures, such as 90; empty: all that the toolkit and this project know")

include(${CMAKE_CURRENT_LIST_DIR}/GpuFind.cmake)

gpu_find_nvcc(nvcc)
gpu_find_devices(has_gpu)
gpu_find_emulator_needs(emulator_lacks)

set(MINIDDP_GPU none)
if(MINIDDP_CUDA STREQUAL "AUTO")
  if(MINIDDP_SANITIZE)
    set(reason "sanitizers see the emulator, not a GPU")
  elseif(NOT nvcc AND has_gpu)
    set(reason "there is a GPU, but no nvcc: install the CUDA toolkit, or set CUDAToolkit_ROOT")
  elseif(NOT nvcc)
    set(reason "no nvcc and no GPU")
  elseif(NOT has_gpu)
    set(reason "nvcc found, but no GPU")
  else()
    set(reason "nvcc and a GPU found")
    set(MINIDDP_GPU cuda)
  endif()
  if(MINIDDP_GPU STREQUAL "none" AND NOT emulator_lacks)
    set(MINIDDP_GPU emulated)
  elseif(MINIDDP_GPU STREQUAL "none")
    string(APPEND reason "; no emulator without ${emulator_lacks}")
  endif()
elseif(MINIDDP_CUDA STREQUAL "EMULATED")
  if(emulator_lacks)
    message(FATAL_ERROR "MINIDDP_CUDA=EMULATED needs ${emulator_lacks}")
  endif()
  set(reason "MINIDDP_CUDA=EMULATED")
  set(MINIDDP_GPU emulated)
elseif(MINIDDP_CUDA STREQUAL "OFF")
  set(reason "MINIDDP_CUDA=OFF")
elseif(MINIDDP_CUDA STREQUAL "ON")
  if(NOT nvcc)
    message(FATAL_ERROR "MINIDDP_CUDA=ON needs nvcc: put it on PATH, or set CUDACXX or CUDAToolkit_ROOT")
  endif()
  set(reason "MINIDDP_CUDA=ON")
  set(MINIDDP_GPU cuda)
else()
  message(FATAL_ERROR "MINIDDP_CUDA=${MINIDDP_CUDA}: expected AUTO, ON, OFF or EMULATED")
endif()

if(MINIDDP_GPU STREQUAL "cuda")
  gpu_enable_cuda("${nvcc}")
  add_library(gpu INTERFACE)
  target_include_directories(gpu INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/common/kernels/cuda/nvcc)
  target_link_libraries(gpu INTERFACE CUDA::cudart CUDA::cublas Threads::Threads)
  # fmt's format strings are checked while compiling, which nvcc's front end cannot do: in .cu files they are checked
  # when used. (FMT_USE_CONSTEXPR: fmt 9 guesses wrongly for nvcc in C++20. FMT_USE_CONSTEVAL: fmt 11's name.)
  foreach(definition FMT_CONSTEVAL= FMT_USE_CONSTEVAL=0 FMT_USE_CONSTEXPR=1)
    target_compile_definitions(gpu INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:${definition}>)
  endforeach()
  gpu_find_nccl()
  message(STATUS "GPU code: CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${reason}), architectures ${CMAKE_CUDA_ARCHITECTURES}, ${nccl_summary}")
elseif(MINIDDP_GPU STREQUAL "emulated")
  set(MINIDDP_HAVE_NCCL ON)
  message(STATUS "GPU code: emulated on the CPU (${reason})")
else()
  set(MINIDDP_HAVE_NCCL OFF)
  message(STATUS "GPU code: none, CPU only (${reason})")
endif()

# How g++ must compile what nvcc would compile, and the emulator:
# - kernels find their __shared__ variables, which are thread-local here, without a call (initial-exec);
# - calls inside a shared library are direct (no-semantic-interposition): a third of a barrier's time.
set(MINIDDP_EMULATED_OPTIONS -ftls-model=initial-exec -fno-semantic-interposition)

# Says how files that hold kernels are compiled, in the calling directory.
function(gpu_language)
  foreach(file IN LISTS ARGN)
    if(MINIDDP_GPU STREQUAL "cuda")
      set_source_files_properties(${file} PROPERTIES LANGUAGE CUDA)
    else()
      # -x c++: g++ would take a .cu file for a linker script. #pragma unroll is nvcc's.
      set_source_files_properties(${file} PROPERTIES LANGUAGE CXX
        COMPILE_OPTIONS "-x;c++;-Wno-unknown-pragmas;${MINIDDP_EMULATED_OPTIONS}")
    endif()
  endforeach()
endfunction()

# Adds files that hold kernels to a target of the calling directory.
function(gpu_sources target)
  gpu_language(${ARGN})
  target_sources(${target} PRIVATE ${ARGN})
  target_link_libraries(${target} PRIVATE gpu)
endfunction()

# A library of kernels. Emulated, it is a shared one: the emulator then can tell its __shared__ variables from other
# thread-local ones and fill them with NaN before each block. So no other thread_local in such a library.
function(gpu_library name)
  if(MINIDDP_GPU STREQUAL "cuda")
    add_library(${name} STATIC)
  else()
    add_library(${name} SHARED)
  endif()
  gpu_sources(${name} ${ARGN})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC gpu fmt::fmt)
endfunction()

# What nvcc compiles, whatever this build is for, each in a folder of its own. A warning of nvcc or of its host compiler is an error.
# Needs nvcc, no GPU.
#   cuda_one_architecture    the kernels and the headers' drift guard, for one architecture: a minute, a test runs it (tests/emulated)
#   cuda_all_architectures   all of common/ for every architecture of GpuFind.cmake: minutes, for a nightly run
function(gpu_nvcc_build name architectures)
  add_custom_target(${name}
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_SOURCE_DIR} -B ${CMAKE_BINARY_DIR}/${name} -G ${CMAKE_GENERATOR}
      -DCMAKE_BUILD_TYPE=Release -DMINIDDP_CUDA=ON -DMINIDDP_CUDA_ARCHITECTURES=${architectures} -DCMAKE_CUDA_COMPILER=${nvcc}
      "-DCMAKE_CUDA_FLAGS=-Werror all-warnings -Xcompiler=-Wall,-Wextra"
    COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR}/${name} --target ${ARGN}
    VERBATIM USES_TERMINAL)
endfunction()
if(nvcc)
  gpu_nvcc_build(cuda_one_architecture 80 miniddp_cuda_kernels emulator_test_kernels drift_guard)
  gpu_nvcc_build(cuda_all_architectures "" miniddp emulator_test_kernels drift_guard)
endif()
