#include <cohort/optimizers.hpp>

#include <algorithm>
#include <cctype>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

}  // namespace

Optimizers& Optimizers::add(const Listed& one) {
  if (one.name_ && !is_name(*one.name_)) {
    throw UserError("an optimizer is called " + host::in_quotes(*one.name_) +
                    "; a name consists of letters, digits, '_' and '-'");
  }
  if (one.name_ && std::ranges::count(details_, *one.name_, &Details::name) > 0) {
    throw UserError("two optimizers are called " + host::in_quotes(*one.name_) + "; give each a name of its own");
  }
  return append(one.name_.value_or(""), one.optimizer_, one.schedules_);
}

Optimizers& Optimizers::append(std::string name, std::shared_ptr<torch::optim::Optimizer> optimizer,
                               Schedules schedules) {
  if (!optimizer) throw UserError("an optimizer is a null pointer; give std::make_shared<torch::optim::...>(...)");
  const size_t groups = optimizer->param_groups().size();
  if (schedules.size() > 1 && schedules.size() != groups) {
    throw UserError("an optimizer has " + std::to_string(groups) + " parameter groups and " +
                    std::to_string(schedules.size()) + " schedules; give one schedule for all groups, or one for each");
  }
  optimizers_.push_back(std::move(optimizer));
  details_.push_back({std::move(name), std::move(schedules)});
  return *this;
}

bool Optimizers::have_schedules() const {
  return std::ranges::any_of(details_, [](const Details& one) { return !one.schedules.empty(); });
}

}  // namespace cohort
