// Built instead of gloo_*.cpp where the Gloo library was not found.
#include "chapters/04_process_group/host_backend.h"
#include "chapters/04_process_group/process_group.h"

namespace miniddp {

std::unique_ptr<HostBackend> make_gloo_backend(int, int, Store&, const std::string&, Milliseconds) {
  throw DistBackendError(
      "this build has no Gloo: install libgloo-dev, configure and build again, or choose the backend "
      "\"ring\"");
}

}  // namespace miniddp
