// Built instead of nccl.cpp where there is no CUDA backend or no NCCL.
#include "chapters/04_process_group/nccl.h"

namespace miniddp {

std::shared_ptr<ProcessGroup> make_nccl_group(int, int, Device, std::shared_ptr<TcpStore>, std::shared_ptr<Store>) {
  throw DistBackendError(
      "Distributed package doesn't have NCCL built in: install the CUDA Toolkit and NCCL (libnccl-dev), configure and build again, "
      "or choose the backend \"gloo\" or \"ring\"");
}

}  // namespace miniddp
