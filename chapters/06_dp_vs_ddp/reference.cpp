#include "chapters/06_dp_vs_ddp/reference.h"

#include <algorithm>
#include <cmath>

namespace miniddp {
namespace {

std::vector<float> gradient_of(const std::string& name, const Tensor& parameter) {
  check(parameter.grad().defined(), "{} has no gradient after backward", name);
  return parameter.grad().to_vector<float>();
}

double largest_element(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, static_cast<double>(std::abs(value)));
  return largest;
}

// Beyond every tolerance if anything is NaN.
double largest_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (!(difference <= largest)) largest = std::isnan(difference) ? 1e300 : difference;
  }
  return largest;
}

}  // namespace

double parity_tolerance(int64_t steps) { return steps <= 10 ? 1e-6 : 5e-6; }

ReferenceWriter::ReferenceWriter(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
  check(file_.good(), "cannot write {}", path.string());
}

void ReferenceWriter::add(double loss, const NamedTensors& parameters) {
  check(std::isfinite(loss), "the loss of one device is {}: choose a smaller --lr", loss);
  const auto write = [&](const std::vector<float>& values) {
    file_.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  };
  file_.write(reinterpret_cast<const char*>(&loss), sizeof loss);
  for (const auto& [name, parameter] : parameters) write(gradient_of(name, parameter));
  for (const auto& [name, parameter] : parameters) write(parameter.to_vector<float>());
}

void ReferenceWriter::close() {
  file_.close();
  check(file_.good(), "cannot write {}: is the disk full?", path_.string());
}

ReferenceReader::ReferenceReader(const std::filesystem::path& path, int64_t steps) : path_(path), file_(path, std::ios::binary) {
  check<DataError>(file_.good(), "cannot read {}", path.string());
  result_.tolerance = parity_tolerance(steps);
  result_.passed = true;
}

void ReferenceReader::differs(double difference, double tolerance, const std::string& what) {
  if (difference > 0 && result_.first_bits.step == 0) result_.first_bits = {step_, what, difference};
  if (difference <= tolerance) return;  // so that NaN does not pass
  if (result_.first_beyond.step == 0) result_.first_beyond = {step_, what, difference};
  result_.passed = false;
}

void ReferenceReader::compare(double loss, const NamedTensors& parameters) {
  ++step_;
  check(std::isfinite(loss), "the loss of step {} is {}: choose a smaller --lr", step_, loss);
  double expected_loss = 0;
  file_.read(reinterpret_cast<char*>(&expected_loss), sizeof expected_loss);
  result_.losses.push_back(loss);
  result_.loss.push_back(std::abs(loss - expected_loss));
  differs(result_.loss.back(), result_.tolerance, "loss");
  const auto compare_next = [&](const std::vector<float>& found, double tolerance, const std::string& what) {
    expected_.resize(found.size());
    file_.read(reinterpret_cast<char*>(expected_.data()), static_cast<std::streamsize>(found.size() * sizeof(float)));
    check<DataError>(file_.good(), "{} ends before step {}", path_.string(), step_);
    const double difference = largest_difference(found, expected_);
    differs(difference, tolerance * largest_element(expected_), what);
    return difference;
  };
  double gradients = 0, values = 0;
  for (const auto& [name, parameter] : parameters) {
    gradients = std::max(gradients, compare_next(gradient_of(name, parameter), gradient_tolerance, "gradient of " + name));
  }
  for (const auto& [name, parameter] : parameters) {
    values = std::max(values, compare_next(parameter.to_vector<float>(), parameter_tolerance, "parameter " + name));
  }
  result_.gradients.push_back(gradients);
  result_.parameters.push_back(values);
}

}  // namespace miniddp
