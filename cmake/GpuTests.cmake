# miniddp_test_on_gpu(program [LABEL name] [TIMEOUT seconds])
#
# Runs a test program, all its cases in one process, on the GPUs of this build. On the emulator it runs once in each mode:
# an order in which the threads of a block run, and a way in which streams do (common/cuda_emulator/settings.h); the
# label is LABEL or "emulated". With real GPUs it runs once, labelled "gpu", alone, and is skipped where there is none.
function(miniddp_test_on_gpu program)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL emulated)
  endif()
  if(MINIDDP_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  if(MINIDDP_GPU STREQUAL "cuda")
    add_test(NAME gpu:${program} COMMAND ${program})
    set_tests_properties(gpu:${program} PROPERTIES LABELS gpu TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu)
    return()
  endif()
  if(MINIDDP_SANITIZE MATCHES "thread")
    set(modes forward/threads) # it sees races in any order, and it is slow
  elseif(MINIDDP_SANITIZE MATCHES "address")
    set(modes forward/threads reverse/eager) # eager: it sees the host reading device memory
  else()
    set(modes forward/threads reverse/lazy shuffle:1/delay:1 shuffle:2/eager)
  endif()
  foreach(mode IN LISTS modes)
    string(REPLACE "/" ";" parts ${mode})
    list(GET parts 0 order)
    list(GET parts 1 streams)
    set(name "emulated:${program} ${order} ${streams}")
    add_test(NAME ${name} COMMAND ${program})
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
      ENVIRONMENT "MINIDDP_EMULATOR_ORDER=${order};MINIDDP_EMULATOR_STREAMS=${streams}")
  endforeach()
endfunction()
