#include "sandbox/subject/player.h"

#include <ffi.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <vector>

namespace khost::sandbox {
namespace {

constexpr std::size_t kMostFilled = std::size_t{64} << 20;  // of a workspace, since what it fills is memory in use

// NaN with random payloads and signs, which are other ones in each process: no kernel may count on any number.
void fill(std::byte* data, std::size_t bytes) {
  constexpr std::uint64_t kNan = 0x7fc000007fc00000ull;
  auto state = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const std::uint64_t word = (state ^ (state >> 29)) | kNan;
    std::memcpy(data + at, &word, 8);
  }
}

// khost::workspace and khost::threads of khost.h, as the callee sees them.
struct WorkspaceArgument {
  void* data;
  std::size_t bytes;
};
struct ThreadsArgument {
  int count;
};

// One argument's value where ffi_call reads it.
union Value {
  void* pointer;
  std::uint64_t bits;
  WorkspaceArgument workspace;
  ThreadsArgument threads;
};

struct StructType {
  std::array<ffi_type*, 3> elements{};
  ffi_type type{};
  StructType(ffi_type* first, ffi_type* second) : elements{first, second, nullptr} {
    type.type = FFI_TYPE_STRUCT;
    type.elements = elements.data();
  }
};

ffi_type* workspace_type() {
  static StructType type(&ffi_type_pointer, sizeof(std::size_t) == 8 ? &ffi_type_uint64 : &ffi_type_uint32);
  return &type.type;
}

ffi_type* threads_type() {
  static StructType type(&ffi_type_sint32, nullptr);
  return &type.type;
}

ffi_type* scalar_type(char type) {
  switch (type) {
    case 'f':
      return &ffi_type_float;
    case 'd':
      return &ffi_type_double;
    case '?':
    case 'B':
      return &ffi_type_uint8;
    case 'b':
      return &ffi_type_sint8;
    case 'h':
      return &ffi_type_sint16;
    case 'i':
      return &ffi_type_sint32;
    case 'I':
      return &ffi_type_uint32;
    case 'l':
      return &ffi_type_sint64;
    case 'L':
      return &ffi_type_uint64;
    default:
      return nullptr;
  }
}

struct Call {
  std::string symbol;
  void (*function)() = nullptr;
  ffi_cif interface {};
  std::vector<ffi_type*> types;
  std::vector<Value> values;
  std::vector<void*> places;
};

}  // namespace

struct Player::State {
  std::deque<Call> calls;  // a cif points into its call: no moves
  std::vector<WorkspaceArgument> workspace;
  std::string failed;
  bool pages = true;  // of the workspace; else it is the device's and goes with the process

  ~State() {
    for (const WorkspaceArgument& piece : workspace) {
      if (piece.data != nullptr && pages) {
        munmap(piece.data, piece.bytes);
      }
    }
  }

  Status allocate(const std::vector<std::size_t>& pieces, void* (*device)(std::size_t)) {
    pages = device == nullptr;
    for (const std::size_t bytes : pieces) {
      void* data = nullptr;
      if (bytes > 0 && device != nullptr) {
        data = device(bytes);
        if (data == nullptr) {
          return Failure{"the device has no " + std::to_string(bytes) + " bytes for the workspace", "limit"};
        }
      } else if (bytes > 0) {
        data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) {
          return Failure{"workspace of " + std::to_string(bytes) + " bytes: " + std::strerror(errno), "limit"};
        }
        // New pages are zero, as no scratch memory is that was used before.
        fill(static_cast<std::byte*>(data), std::min(bytes, kMostFilled));
      }
      workspace.push_back({data, bytes});
    }
    return ok();
  }

  Result<void*> address(const Plan& plan, const Mapped& mapped, const PlanArgument& argument) const {
    if (argument.slot == Slot::null) {
      return static_cast<void*>(nullptr);
    }
    if (argument.slot == Slot::value) {
      return Failure{"a plan with torch operators is no plan for this subject", "bad_input"};
    }
    if (argument.slot == Slot::workspace) {
      if (argument.index >= workspace.size()) {
        return Failure{"workspace " + std::to_string(argument.index) + " does not exist", "bad_input"};
      }
      return static_cast<void*>(static_cast<std::byte*>(workspace[argument.index].data) + argument.offset);
    }
    const auto& [region, base] = argument.slot == Slot::input   ? std::pair{&plan.regions.inputs, mapped.inputs}
                                 : argument.slot == Slot::state ? std::pair{&plan.regions.state, mapped.state}
                                                                : std::pair{&plan.regions.outputs, mapped.outputs};
    if (argument.index >= region->size() || base == nullptr) {
      return Failure{"storage " + std::to_string(argument.index) + " does not exist", "bad_input"};
    }
    return static_cast<void*>(base + (*region)[argument.index].offset + argument.offset);
  }

  Status add_argument(const Plan& plan, const Options& options, const PlanArgument& argument, Call& call) const {
    Value value{};
    ffi_type* type = &ffi_type_pointer;
    switch (argument.role) {
      case 'r':
      case 'w': {
        Result<void*> pointer = address(plan, options.mapped, argument);
        if (!pointer) {
          return pointer.failure();
        }
        value.pointer = *pointer;
        break;
      }
      case 's':
        type = scalar_type(argument.type);
        value.bits = argument.bits;
        break;
      case 'W':
        type = workspace_type();
        if (argument.slot == Slot::workspace && argument.index < workspace.size()) {
          value.workspace = workspace[argument.index];
        }
        break;
      case 'S':
      case 'H':
        value.pointer = argument.role == 'S' ? options.stream : options.handles;
        type = value.pointer != nullptr ? type : nullptr;
        break;
      case 'T':
        type = threads_type();
        value.threads = {options.threads};
        break;
      default:
        type = nullptr;
    }
    if (type == nullptr) {
      return Failure{"'" + call.symbol + "' takes an argument that this subject cannot pass", "bad_input"};
    }
    call.types.push_back(type);
    call.values.push_back(value);
    return ok();
  }
};

Player::Player(std::unique_ptr<State> state) : state_(std::move(state)) {}
Player::Player(Player&&) noexcept = default;
Player::~Player() = default;

Result<Player> Player::prepare(const Plan& plan, const Options& options) {
  auto state = std::make_unique<State>();
  if (const Status status = state->allocate(plan.workspace, options.allocate); !status) {
    return status.failure();
  }
  for (const Launch& launch : plan.launches) {
    Call& call = state->calls.emplace_back();
    call.symbol = launch.symbol;
    call.function = reinterpret_cast<void (*)()>(options.lookup(options.library, launch.symbol.c_str()));
    if (call.function == nullptr) {
      return Failure{"the library has no '" + launch.symbol + "'", "bad_input"};
    }
    for (const PlanArgument& argument : launch.arguments) {
      if (const Status status = state->add_argument(plan, options, argument, call); !status) {
        return status.failure();
      }
    }
    for (Value& value : call.values) {
      call.places.push_back(&value);
    }
    if (ffi_prep_cif(&call.interface, FFI_DEFAULT_ABI, static_cast<unsigned>(call.types.size()), &ffi_type_sint32,
                     call.types.data()) != FFI_OK) {
      return Failure{"the arguments of '" + launch.symbol + "' cannot be passed", "bad_input"};
    }
  }
  return Player(std::move(state));
}

int Player::run() {
  for (Call& call : state_->calls) {
    ffi_arg returned = 0;
    ffi_call(&call.interface, call.function, &returned, call.places.data());
    if (const int code = static_cast<int>(returned); code != 0) {
      state_->failed = call.symbol;
      return code;
    }
  }
  return 0;
}

const std::string& Player::failed_symbol() const {
  return state_->failed;
}

}  // namespace khost::sandbox
