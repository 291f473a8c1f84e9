#include "chapters/02_manual_parallel/parallel_apply.h"

#include <cxxabi.h>

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/core/worker.h"

namespace miniddp {
namespace {

std::string type_name(const std::exception& error) {
  int status = 0;
  char* readable = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
  const std::string name = readable != nullptr ? readable : typeid(error).name();
  std::free(readable);
  return name.substr(name.rfind(':') + 1);
}

// Throws the error that is being handled again, as an E, with the replica's name in front.
template <class E>
[[noreturn]] void rethrow(const std::exception& error, size_t replica, Device device) {
  throw E(fmt::format("Caught {} in replica {} on device {}: {}", type_name(error), replica, device.str(), error.what()));
}

[[noreturn]] void rethrow_from(const std::exception_ptr& caught, size_t replica, Device device) {
  try {
    std::rethrow_exception(caught);
  } catch (const ShapeError& error) {
    rethrow<ShapeError>(error, replica, device);
  } catch (const DeviceError& error) {
    rethrow<DeviceError>(error, replica, device);
  } catch (const DataError& error) {
    rethrow<DataError>(error, replica, device);
  } catch (const TimeoutError& error) {
    rethrow<TimeoutError>(error, replica, device);
  } catch (const UsageError& error) {
    rethrow<UsageError>(error, replica, device);
  } catch (const std::exception& error) {
    rethrow<Error>(error, replica, device);
  } catch (...) {
    throw Error("Caught an exception of an unknown type in replica {} on device {}", replica, device.str());
  }
}

// Calls job(i) for each device on its worker, and returns when all are done; a single one on the calling thread. A job must not throw.
void run_side_by_side(const std::vector<Device>& devices, const std::function<void(size_t replica)>& job) {
  if (devices.size() == 1) return job(0);
  const Span waiting(nullptr, {});  // the workers record their own spans
  const int tier = next_tier();     // a replica may itself use replicas: its helpers are other threads than the one that waits
  const bool gradients = grad_enabled();
  std::mutex mutex;
  std::condition_variable all_done;
  size_t running = devices.size();
  for (size_t i = 0; i < devices.size(); ++i) {
    worker_of("replica", devices[i], tier).submit([&, i] {
      {
        const GradMode mode(gradients);  // recording is switched on and off for each thread: the caller's choice holds here
        job(i);
      }
      std::lock_guard lock(mutex);
      if (--running == 0) all_done.notify_one();
    });
  }
  // Nobody leaves before all are done: they use the caller's variables.
  std::unique_lock lock(mutex);
  all_done.wait(lock, [&] { return running == 0; });
}

}  // namespace

void parallel_for_devices(const std::vector<Device>& devices, const std::function<void(size_t replica)>& body) {
  // BEGIN SOLUTION 02.6 errors of the replicas
  std::vector<std::exception_ptr> errors(devices.size());
  run_side_by_side(devices, [&](size_t replica) {
    try {
      const Span span("forward", devices[replica]);
      body(replica);
    } catch (...) {
      errors[replica] = std::current_exception();
    }
  });
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i]) rethrow_from(errors[i], i, devices[i]);
  }
  // END SOLUTION
}

namespace {

template <class Output, class Input>
std::vector<Output> apply(const Replicas& replicas, const std::vector<Input>& inputs, const std::vector<Device>& devices) {
  check(replicas.size() == inputs.size() && replicas.size() == devices.size(),
        "parallel_apply: expected as many inputs and devices as replicas, found {} replicas, {} inputs and {} devices", replicas.size(),
        inputs.size(), devices.size());
  std::vector<Output> outputs(replicas.size());
  parallel_for_devices(devices, [&](size_t i) { outputs[i] = (*replicas[i])(inputs[i]); });
  return outputs;
}

}  // namespace

std::vector<Tensor> parallel_apply(const Replicas& replicas, const std::vector<Tensor>& inputs, const std::vector<Device>& devices) {
  return apply<Tensor>(replicas, inputs, devices);
}

std::vector<Value> parallel_apply(const Replicas& replicas, const std::vector<Inputs>& inputs, const std::vector<Device>& devices) {
  return apply<Value>(replicas, inputs, devices);
}

}  // namespace miniddp
