#include "chapters/04_process_group/store.h"

namespace miniddp {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  set_timeout(store_->timeout());
}

std::vector<std::string> PrefixStore::join(const std::vector<std::string>& keys) const {
  std::vector<std::string> joined;
  for (const std::string& key : keys) joined.push_back(join(key));
  return joined;
}

void PrefixStore::set(const std::string& key, const std::string& value) {
  store_->set(join(key), value);
}

std::string PrefixStore::get(const std::string& key) {
  store_->wait({join(key)}, timeout());  // our limit, not the other store's
  return store_->get(join(key));
}

int64_t PrefixStore::add(const std::string& key, int64_t amount) {
  return store_->add(join(key), amount);
}

void PrefixStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  store_->wait(join(keys), timeout);
}

bool PrefixStore::check(const std::vector<std::string>& keys) {
  return store_->check(join(keys));
}

std::string PrefixStore::compare_set(const std::string& key, const std::string& expected,
                                     const std::string& desired) {
  return store_->compare_set(join(key), expected, desired);
}

bool PrefixStore::delete_key(const std::string& key) {
  return store_->delete_key(join(key));
}

int64_t PrefixStore::num_keys() {
  return store_->num_keys();
}

std::shared_ptr<Store> PrefixStore::clone() {
  return std::make_shared<PrefixStore>(prefix_, store_->clone());
}

}  // namespace miniddp
