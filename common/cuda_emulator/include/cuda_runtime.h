// Stand-in for CUDA's <cuda_runtime.h>. Found first on the include path of an emulated build, it lets a plain C++
// compiler build .cu files and host code, and runs them on virtual GPUs. Names, signatures and values are CUDA 13's;
// tests/emulated/drift_guard.cpp compares them with the real headers. Only what this project uses is here.
#pragma once

#include "common/cuda_emulator/device_language.h"
#include "common/cuda_emulator/device_functions.h"
#include "common/cuda_emulator/host_api.h"
#include "common/cuda_emulator/graph_api.h"
#include "common/cuda_emulator/kernel_call.h"
