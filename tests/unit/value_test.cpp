// Values, warnings, and modules that take more than one tensor.
#include "common/nn/value.h"

#include "common/core/warning.h"
#include "common/nn/layers.h"
#include "tests/support/catch.h"
#include "tests/support/warnings.h"

using namespace miniddp;
using miniddp::testing::CaughtWarnings;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("value: holds what it was given and says what it is when asked for something else") {
  const Value none, tensor = Tensor::ones({2}), list = Value::List{{tensor, none}}, dict = Value::Dict{{{"b", tensor}, {"a", list}}};
  CHECK(none.is_none());
  CHECK(tensor.tensor().numel() == 2);
  CHECK(list.items().size() == 2);
  CHECK(dict.at("a").at(0).tensor().is_same(tensor.tensor()));
  CHECK(Value::object(std::string("text")).as<std::string>() == "text");
  CHECK(Value(Value::Tuple{{none}}).kind() == "a tuple of 1");
  CHECK_THROWS_WITH(none.tensor(), ContainsSubstring("expected a tensor, found None"));
  CHECK_THROWS_WITH(dict.items(), ContainsSubstring("expected a list or a tuple, found a dictionary of 2"));
  CHECK_THROWS_WITH(list.at(2), ContainsSubstring("at least 3 items"));
  CHECK_THROWS_WITH(dict.at("c"), ContainsSubstring("no key \"c\""));
  CHECK_THROWS_AS(Value::object(1).as<double>(), Error);
}

TEST_CASE("module: one tensor by place or by name, anything else is refused in words") {
  Linear linear(3, 2);
  const Tensor x = Tensor::ones({4, 3});
  CHECK(linear(Inputs{{x}, {}}).tensor().shape() == Shape{4, 2});
  CHECK(linear(Inputs{{}, {{{"input", x}}}}).tensor().shape() == Shape{4, 2});
  CHECK_THROWS_WITH(linear(Inputs{}), ContainsSubstring("missing 1 required positional argument: 'input'"));
  CHECK_THROWS_WITH(linear(Inputs{{x, x}, {}}), ContainsSubstring("2 positional and 0 named"));
  CHECK_THROWS_WITH(linear(Inputs{{}, {{{"other", x}}}}), ContainsSubstring("takes 1 argument, 'input'"));
}

TEST_CASE("module: forward hooks see inputs and output, of either way to call") {
  Linear linear(3, 2);
  std::vector<std::string> seen;
  linear.register_forward_hook([&](Module&, const Inputs& inputs, const Value& output) {
    seen.push_back(inputs.args[0].kind() + " to " + to_string(output.tensor().shape()));
  });
  linear(Tensor::ones({4, 3}));
  linear(Inputs{{Tensor::ones({1, 3})}, {}});
  CHECK(seen == std::vector<std::string>{"a tensor to (4, 2)", "a tensor to (1, 2)"});
}

TEST_CASE("warnings go to the handler and back to stderr") {
  {
    const CaughtWarnings warnings;
    warn("one");
    warn("one");
    CHECK(warnings.messages() == std::vector<std::string>{"one", "one"});
  }
  CHECK_FALSE(set_warning_handler({}));
}

TEST_CASE("state_dict: the prefix of a wrapper is taken off where it is") {
  const NamedTensors state{{"module.fc.weight", Tensor::ones({1})}, {"fc.bias", Tensor::ones({2})}};
  const NamedTensors plain = consume_prefix_in_state_dict_if_present(state);
  CHECK(plain[0].first == "fc.weight");
  CHECK(plain[1].first == "fc.bias");
}
