package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// open opens a file that is no link, and may create it.
func open(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|create|windows.O_FILE_FLAG_OPEN_REPARSE_POINT, 0o666)
	if err != nil {
		return nil, err
	}
	var is windows.ByHandleFileInformation
	err = windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &is)
	if err == nil && is.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		err = notOurs(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
