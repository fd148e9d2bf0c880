// Giving a delegate to a session of MindSpore Lite.
//
// Context::SetDelegate is the public way. The wheel of 2.0.0 has it switched off, though its sessions still honour a
// delegate: LiteSession::DelegateInit starts the one in the session's InnerContext. That function is called through the
// dynamic linker, so one of the same name that is found before it can put the delegate there and go on to the real one.
// Where the members are is known for that wheel alone: TPULAYER_WHEEL_2_0_0 says that this is built for it, and how many
// bytes the library has whose sessions they are; with another one nothing is touched.
#include "tpulayer_mindspore.h"

#include "text.h"

#ifndef TPULAYER_WHEEL_2_0_0

namespace tpulayer {
void Attach(const std::shared_ptr<mindspore::Context> &context, const std::shared_ptr<TpuLayerDelegate> &delegate) {
  if (!context || !delegate) return;
  ForgetError();
  context->SetDelegate(delegate);
}
}  // namespace tpulayer

#else

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstring>

namespace tpulayer {
namespace {
constexpr size_t kContextInSession = 0x88;   // LiteSession: its InnerContext *
constexpr size_t kDelegateInContext = 0x68;  // InnerContext: std::shared_ptr<Delegate>
constexpr char kInit[] = "_ZN9mindspore4lite11LiteSession12DelegateInitEv";

thread_local std::shared_ptr<mindspore::Delegate> attached;

int Init(char *session, void *caller) {
  Dl_info info;
  void *library = dladdr(caller, &info) && info.dli_fname ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  if (!library) {
    Fail("DelegateInit was called by no library");
    return -1;
  }
  const auto real = reinterpret_cast<int (*)(char *)>(dlsym(library, kInit));
  struct stat file;
  const bool known = stat(info.dli_fname, &file) == 0 &&
                     (file.st_size == TPULAYER_WHEEL_2_0_0 || file.st_size == TPULAYER_WHEEL_CONVERTER);
  dlclose(library);
  if (real == nullptr) {
    Fail(std::string(info.dli_fname) + " has no DelegateInit");
    return -1;
  }
  if (attached && !known) {
    Fail(std::string("the framework's kernels do everything: ") + info.dli_fname +
         " is not the library of MindSpore Lite that this delegate was built for");
  } else if (attached) {
    char *context;
    memcpy(&context, session + kContextInSession, sizeof context);
    auto *place = reinterpret_cast<std::shared_ptr<mindspore::Delegate> *>(context + kDelegateInContext);
    if (!*place) *place = attached;
  }
  return real(session);
}
}  // namespace

void Attach(const std::shared_ptr<mindspore::Context> &context, const std::shared_ptr<TpuLayerDelegate> &delegate) {
  attached = context ? delegate : nullptr;
  if (attached) ForgetError();
}
}  // namespace tpulayer

extern "C" TPULAYER_API int _ZN9mindspore4lite11LiteSession12DelegateInitEv(char *session) {
  return tpulayer::Init(session, __builtin_return_address(0));
}

#endif
