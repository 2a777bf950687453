#include <cohort/callback.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstring>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {

void CallbackState::set(const std::string& name, double value) {
  set(name, at::scalar_tensor(value, at::kDouble));
}

void CallbackState::set(const std::string& name, std::string_view text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  set(name, std::move(bytes));
}

void CallbackState::set_mean(const std::string& name, at::Tensor value) {
  if (!value.is_floating_point()) {
    throw UserError("set_mean of " + host::in_quotes(name) + " was given integers, which have no mean; use set");
  }
  set(name, std::move(value));
  means_.insert(name);
}

const at::Tensor& CallbackState::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  throw UserError("the state of a callback lacks " + host::in_quotes(name) +
                  "; resume with the callback that the checkpoint was written with");
}

double CallbackState::number(const std::string& name) const {
  const at::Tensor& value = tensor(name);
  if (value.scalar_type() == at::kDouble && value.numel() == 1) return *value.const_data_ptr<double>();
  throw UserError("the state of a callback has no number in " + host::in_quotes(name));
}

std::string CallbackState::text(const std::string& name) const {
  const at::Tensor value = tensor(name).contiguous();
  if (value.scalar_type() != at::kByte) {
    throw UserError("the state of a callback has no text in " + host::in_quotes(name));
  }
  return {static_cast<const char*>(value.const_data_ptr()), static_cast<size_t>(value.numel())};
}

}  // namespace cohort
