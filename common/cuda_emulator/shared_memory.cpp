#include "common/cuda_emulator/shared_memory.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/cuda_emulator/block_runner.h"

namespace miniddp::emulator {
namespace {

struct Module {  // the shared library that holds a kernel, and its thread-local memory in the calling thread
  const void* kernel;
  void* data;
  std::size_t size;
};

int find_module(dl_phdr_info* info, std::size_t, void* argument) {
  auto& module = *static_cast<Module*>(argument);
  const auto address = reinterpret_cast<std::uintptr_t>(module.kernel);
  bool holds_kernel = false;
  std::size_t thread_local_bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) holds_kernel |= address - info->dlpi_addr - header.p_vaddr < header.p_memsz;
    if (header.p_type == PT_TLS) thread_local_bytes = header.p_memsz;
  }
  if (!holds_kernel) return 0;
  const bool is_program = info->dlpi_name[0] == '\0';  // it has thread-local variables that are not ours
  if (!is_program && info->dlpi_tls_data) {
    module.data = info->dlpi_tls_data;
    module.size = thread_local_bytes;
  }
  return 1;
}

}  // namespace

void fill_static_shared(const void* kernel) {
  thread_local std::vector<Module> known;
  for (const Module& module : known)
    if (module.kernel == kernel) return fill_unwritten(module.data, module.size);
  Module module{kernel, nullptr, 0};
  dl_iterate_phdr(find_module, &module);
  known.push_back(module);
  fill_unwritten(module.data, module.size);
}

void fill_unwritten(void* p, std::size_t bytes) {
  auto* to = static_cast<char*>(p);
  std::size_t i = 0;
  for (; i + 4 <= bytes; i += 4) std::memcpy(to + i, &unwritten, 4);
  if (i < bytes) std::memcpy(to + i, &unwritten, bytes - i);
}

std::string describe_kernel(const void* function) {
  Dl_info info{};
  if (!dladdr(function, &info) || !info.dli_fname) return "a kernel";
  if (info.dli_sname && info.dli_saddr == function) {
    int status = 0;
    char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    std::string text = std::string("kernel ") + (name ? name : info.dli_sname);
    std::free(name);
    return text;
  }
  const char* slash = std::strrchr(info.dli_fname, '/');
  char text[256];
  std::snprintf(text, sizeof text, "kernel at %s+0x%zx", slash ? slash + 1 : info.dli_fname,
                static_cast<std::size_t>(static_cast<const char*>(function) - static_cast<const char*>(info.dli_fbase)));
  return text;
}

}  // namespace miniddp::emulator
